# docker build -t ravine .      docker run --rm -v "$PWD:/work" ravine train --config run.yaml
FROM debian:12 AS build
COPY . /ravine
RUN cd /ravine && scripts/install --deb

FROM debian:12-slim
COPY --from=build /ravine/build/release/ravine_*.deb /tmp/
RUN apt-get update && apt-get install -y /tmp/ravine_*.deb && rm -rf /tmp/ravine_*.deb /var/lib/apt/lists/*
# mpirun refuses root unless told; in a container there is no one else.
ENV OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
WORKDIR /work
ENTRYPOINT ["ravine"]
