"use strict";
(() => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const data = JSON.parse(document.getElementById("data").textContent);
  const status = document.getElementById("status");
  const clear = document.getElementById("clear");
  const bar = document.querySelector(".bar");
  let chosen = null;  // the pressed button

  // A filter names a row (r), a column (c) or a series (s) of curves; what says nothing of one matches it.
  const matches = (element, filter) =>
    Object.entries(filter).every(([name, value]) => !(name in element.dataset) || element.dataset[name] === value);

  function show(button) {
    chosen = button;
    const filter = button ? { ...button.dataset } : {};
    delete filter.name;
    for (const element of all(".f")) element.classList.toggle("off", !matches(element, filter));
    for (const entry of all(".legend button")) entry.classList.toggle("dim", !matches(entry, filter));
    for (const other of all("[aria-pressed]")) other.setAttribute("aria-pressed", String(other === button));
    status.textContent = button ? `Only ${button.dataset.name} is shown.` : "Everything is shown.";
    document.body.classList.toggle("chosen", Boolean(button));
    bar.classList.toggle("none", !button);
  }

  for (const button of all("[aria-pressed]"))
    button.addEventListener("click", () => show(button === chosen ? null : button));
  clear.addEventListener("click", () => { const last = chosen; show(null); if (last) last.focus(); });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape" && chosen) show(null); });

  const measure = document.getElementById("measure"), length = document.getElementById("length");
  const caption = document.getElementById("caption");
  function paint() {
    const name = measure.options[measure.selectedIndex].text;
    caption.textContent = `${name} at length ${length.value}, ${data.over}`;
    for (const square of all(".sq")) {
      const { r, c, outcome, longest } = square.dataset;
      const value = data.values[`${r},${c}`]?.[measure.value]?.[length.value];
      // The word is about token accuracy at the longest test: beside anything else it says so.
      const own = !longest || (measure.value === "accuracy" && length.value === longest);
      const word = own ? outcome : `${outcome} at ${longest}`;
      square.className = value === undefined ? "sq empty" : `sq v${Math.round(data.levels * Math.min(Math.max(value, 0), 1))}`;
      square.querySelector("b").textContent = value === undefined ? "–" : value.toFixed(2);
      square.querySelector("span").textContent = word;
      square.setAttribute("aria-label", `${square.dataset.name}: ${name} ${value === undefined ? "not measured" : value.toFixed(2)} ` +
        `at length ${length.value}; ${word}`);
    }
  }
  if (measure) for (const select of [measure, length]) select.addEventListener("change", paint);
})();
