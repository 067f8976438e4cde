#include "step/step_window.h"

namespace ravine {

void StepWindow::add(double mean, int64_t labels, int64_t fed, double time) {
  ++steps;
  valid += labels;
  tokens += fed;
  loss += mean * static_cast<double>(labels);
  seconds += time;
}

Json StepWindow::json() const {
  return {{"steps", steps}, {"valid", valid}, {"tokens", tokens}, {"loss", loss}, {"seconds", seconds}};
}

StepWindow StepWindow::from_json(const Json& j, const std::string& where) {
  StepWindow w;
  w.steps = field<int64_t>(j, "steps", where), w.valid = field<int64_t>(j, "valid", where),
  w.tokens = field<int64_t>(j, "tokens", where);
  w.loss = field<double>(j, "loss", where), w.seconds = field<double>(j, "seconds", where);
  return w;
}

}  // namespace ravine
