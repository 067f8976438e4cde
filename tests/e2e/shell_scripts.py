"""Launch scripts as people write them: what `ravine megatron --script` understands of one is what bash starts. bash runs each with programs that only print their
words, and the words must be the same."""
import json
import subprocess
from pathlib import Path

import ravine_run as r
from ravine_run import check

# The last line of each is a launch; words in $OUT are compared.
SNIPPETS = [
    'A=(1 2 3); B="${A[1]}"; A[3]=x; launch --n ${#A[@]} --b $B --all "${A[@]}" --last ${A[-1]}',
    'for a in "$@"; do LIST="$LIST --x $a"; done; launch $LIST --count $#',
    'TP=1; PP=1; while [ $# -gt 0 ]; do case $1 in --tp) TP=$2; shift 2;; --pp=*) PP=${1#*=}; shift;; *) REST+=("$1"); shift;; esac; done; launch --tp $TP --pp $PP "${REST[@]}"',
    'N=$((1 << 10)); M=$(( (N + 7) / 8 * 2 ** 3 % 1000 )); U=$((unset_name + 5)); launch --n $N --m $M --u $U --t $(( N > 3 ? 1 : 2 )) --x $((0x1f)) --o $((010))',
    'for ((i = 0; i < 4; i++)); do S="$S,$((i * i))"; done; launch --s "${S:1}"',
    'TP=${TP:-2}; PP=${PP-1}; Q=${NOT_SET:+no}; TP_NAME=tp${TP}; launch --tp "$TP_NAME" --pp $PP --q "x${Q}y"',
    'F=/a/b/model.tar.gz; launch --dir ${F%/*} --name ${F##*/} --stem ${F%%.*} --ext ${F#*.} --swap ${F/b/c} --all ${F//a/o} --up ${TINY^^} --cut ${F:1:3} --len ${#F}',
    'DIR=$(cd "$(dirname "$0")" && pwd); launch --dir $DIR --base $(basename /x/y.sh .sh) --me "$(dirname "${BASH_SOURCE[0]}")"',
    'launch --count $(echo 0,1,2,3 | tr "," "\\n" | wc -l) --second $(echo a:b:c | cut -d: -f2) --host "$(hostname)" --who $(whoami)',
    'opts() { local n=$1; shift; OPTS="--first $n --rest $*"; }; opts 7 8 9; launch $OPTS',
    'if [ "$MODE" = big ]; then L=32; elif [[ -z "$MODE" && 3 -lt 4 ]]; then L=2; else L=1; fi; launch --layers $L',
    'case "$(uname -s)" in Linux*) X=1;; Darwin*) X=2;; *) X=3;; esac; launch --x $X',
    'source ./helper.sh; launch --h $FROM_HELPER',
    'CMD="launch --a 1"; CMD="$CMD --b \'two words\'"; eval $CMD',
    'export GPUS=8; bash ./inner.sh 3 "x y"',
    'cat > flags.txt <<-END\n\t--from-file $((2 * 21))\n\tEND\nlaunch $(cat known.txt) --y',
    'set -- --one 1 "two words"; launch "$@"',
    'for n in {1..3}; do [ $n -eq 2 ] && continue; T+=" $n"; done; launch --t$T',
    'A=1; A+=2; ((A++)); let "B = A * 2"; launch --a $A --b $B',
    'x=5; until [ $x -le 2 ]; do x=$((x - 1)); done; launch --x $x',
    'DATA="1.0 a_text 2.0 b_text"; launch --data-path $DATA --quoted "$DATA" --tilde ~/x --lit \'$DATA\' --esc \\$DATA',
    'unset A; EMPTY=; A=${A:=set}; launch --a $A ${EMPTY} "${EMPTY}" --end',
    'declare -a L=(a b); L+=(c); i=2; launch ${L[i]} ${L[$((i-1))]} "${L[*]}"',
    '[[ "abc" == a* ]] && P=yes; [ "abc" == "a*" ] && P=no; [[ -n $P || x ]] && launch --p $P',
    '( A=sub; : ); launch --a "${A:-outer}"; ',
    'f() { return 1; }; f || G=failed; ! f && launch --g $G',
    'NAME=A_B; A_B=deep; launch --i ${!NAME} --d "${NAME,,}"',
    'printf -v Z "%s" no 2>/dev/null; launch --p $(printf "%03d-%s" 7 x)',
    'OPTS=$(cat <<EOF\n--seed 11\n--lr $((1 + 2))\nEOF\n); launch $OPTS',
    'X=; S=1; [[ -n $X ]] && S=2; [[ -f $X ]] && S=3; [[ $X == yes || $X != "" ]] && S=4; launch --s $S',
    'f() { local S=8; declare T=9; U=7; }; S=1; T=2; f; launch --s $S --t $T --u $U',
    'S=${@: -1}; A=(a b c d); g() { launch "${@:2}" --n $# --sl "${A[@]:1:2}" --last "$S"; }; g 1 --x 2',
    'printf "SEED=\\$1\\n" > /dev/null; . ./arg.sh 7; launch --seed $SEED --mine "${1:-none}"',
    'A=model-name-with-forty-characters-in-it-aaaaaaaaaaaaa; [[ $A =~ ^([a-z]+-?)+_v[0-9]+$ ]] && B=1; [[ $A =~ ^([a-z]+-?)+$ ]] && C=1; launch --b "$B" --c "$C"',
    'X=abc; [[ $X == abc ]] && S=4 || S=5; [[ $X =~ ^a.c$ ]] && R=1 || R=0; launch --s $S --r $R',
    'twice() { echo $(($1 * 2)); }; declare -A HID=([tiny]=64 [big]=128); HID[more]=256; launch --d $(twice 4) --h ${HID[big]} ${HID[more]}',
    'read -r A B <<< "64 128 256"; IFS=, read -ra C <<< "x,y"; launch --a $A --b "$B" --c ${C[1]} ${#C[@]}',
    'N=$(cat nothing.txt 2>/dev/null || echo 5); S=08; launch --n $N --s $((10#$S)) --l $(echo abc | wc -c)',
    'A=(1 2 3); unset "A[2]"; launch --n ${#A[@]}',
    'set -e; f() { return 1; }; if f; then X=1; fi; f || Y=2; [ 1 = 2 ] && Z=3; launch --x "${X}${Y}"',
    'set -e; false; launch --never',
    'set -e; [ -d /nowhere ]; launch --never',
    'set -e; source missing.env; launch --never',
    'bash -c "launch --in $((1+1))"',
    'M=meta/llama/x; launch "${M//\\//_}" "${M/#meta/x}" "${M/%x/y}" "${M/l*a/X}"',
    "launch --tab $'a\\tb'",
    'for i in {5..3} {01..03}; do L+=" $i"; done; launch --l$L',
    'IFS=,; C=1,2,3; launch $C',
    'F=(a b c); E=(--lr 3); D="${F[@]}"; O="${E[@]}"; Z="q ${F[@]} z"; Y=${F[@]:1:2}; K="${F[@]%b}"; launch --d $D $O --z $Z --y $Y --k $K --one "$D"',
    'F=(a b c); X="$@"; IFS=,; J="${F[*]}"; f() { local IFS=:; echo "$*"; }; unset IFS; launch --x $X --j $J --f $(f 1 2)',
    'SEQ=32; pick() { SEQ=16; echo 8; }; GBS=$(pick); Z=$(Y=in; echo $Y); W=`V=1; echo 2`; launch --seq $SEQ --gbs $GBS --z $Z ${Y:-out} $W ${V:-out}',
    'for i in 1 2; do for j in 1 2; do [ $j = 2 ] && continue 2; L+=" $i$j"; done; L+=never; done; launch --l$L',
    '[[ ab == "a*" ]] && S=1 || S=2; case "x" in "*") T=1;; *) T=2;; esac; launch --s $S --t $T',
    'L=(B x); B=q; launch --keys "${!L[@]}"',
    'OLDIFS=$IFS; launch --k "a  b"   --t\ttab # a comment --no',
]
HELPER = "FROM_HELPER=$((40 + 2))\n"
INNER = 'launch --first $1 --second "$2" --gpus $GPUS --count $#\n'
STUB = '#!/bin/bash\nprintf "%s\\0" "$@" > "$WORDS_FILE"\n'


def of_bash(folder, script, arguments):
    env = {"PATH": f"{folder / 'bin'}:/usr/bin:/bin", "HOME": "/home/of/test", "WORDS_FILE": str(folder / "words"), "TINY": "tiny"}
    (folder / "words").unlink(missing_ok=True)
    subprocess.run(["bash", script, *arguments], cwd=folder, env=env, capture_output=True, timeout=60)
    return (folder / "words").read_bytes().decode().split("\0")[:-1] if (folder / "words").exists() else None


def row_of(done):
    """The words of the only launch, or what stands in the way of them."""
    if done.returncode or done.stdout.count("\n") != 1:
        return done.stderr or done.stdout
    row = json.loads(done.stdout)
    return row.get("unknown") or row["words"]


def test_words_are_those_of_bash(folder):
    (folder / "bin").mkdir()
    (folder / "helper.sh").write_text(HELPER)
    (folder / "inner.sh").write_text(INNER.replace("launch", "python pretrain_gpt.py"))
    (folder / "arg.sh").write_text("SEED=$1\n")
    (folder / "known.txt").write_text("--known 1\n")
    (folder / "bin" / "python").write_text(STUB)
    (folder / "bin" / "python").chmod(0o755)
    wrong = []
    for snippet in SNIPPETS:
        for arguments in ([], ["--tp", "4", "--pp=2", "a b"]):
            script = folder / "run.sh"
            script.write_text("#!/bin/bash\n" + snippet.replace("launch", "python pretrain_gpt.py") + "\n")
            want = of_bash(folder, "run.sh", arguments)
            env = {"HOME": "/home/of/test", "TINY": "tiny", "PATH": "/usr/bin:/bin"}
            done = subprocess.run([r.PROGRAM, "megatron", "--script", "run.sh", "--launches", *(["--", *arguments] if arguments else [])], cwd=folder, env=env, capture_output=True, text=True)
            got = row_of(done)
            if want != got if want is not None else isinstance(got, list):
                wrong.append(f"{snippet}\n  {arguments}\n  bash: {want}\n  here: {got}")
    check(not wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong))


if __name__ == "__main__":
    r.main(globals())
