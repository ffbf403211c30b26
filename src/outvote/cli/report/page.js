// When a slider moves, show the result for this number of corrupt rows, and move the line in the figure.
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);

data.forEach((curve) => {
  const box = document.getElementById(`curve-${curve.place}`);
  const [control, slider] = [box.querySelector(".control"), box.querySelector("input")];
  const [count, verdict, said] = [".count", ".verdict", ".said"].map((name) => box.querySelector(name));
  const line = box.querySelector(".here");

  function show() {
    const t = Number(slider.value);
    // Between two stops the result of the larger one is shown.
    const stop = curve.stops.findIndex((one) => one >= t);
    const [word, kind] = curve.words[curve.verdict[stop] + 1];
    count.textContent = String(t).replace(/\B(?=(\d{3})+$)/g, " ");
    verdict.textContent = word;
    verdict.className = `verdict ${kind}`;
    said.textContent = curve.said[stop];
    slider.setAttribute("aria-valuetext", `${t} corrupt rows: ${word}`);
    const x = curve.left + ((t - curve.first) / (curve.last - curve.first)) * (curve.right - curve.left);
    line.setAttribute("x1", x);
    line.setAttribute("x2", x);
  }

  slider.addEventListener("input", show);
  box.querySelector("button").addEventListener("click", () => {
    slider.value = curve.assumed;
    show();
  });
  control.hidden = false;
  slider.value = curve.assumed; // a browser may restore an earlier position
  show();
});
