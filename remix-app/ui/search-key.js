// Focuses the page's search field when "/" is pressed outside a text field. Single keys can be pressed by mistake, so
// people can turn the shortcut off in their profile settings (WCAG 2.1.4).
const root = document.documentElement;
const stored = "gatehouse-search-key";
if (localStorage.getItem(stored) === "off") root.dataset.searchKey = "off";

document.addEventListener("click", ({ target }) => {
  const choice = target.closest?.("[data-search-key-choice]")?.dataset.searchKeyChoice;
  if (!choice) return;
  localStorage.setItem(stored, choice);
  root.dataset.searchKey = choice;
  document.querySelector(`[data-search-key-choice="${choice === "off" ? "on" : "off"}"]`).focus();
});

document.addEventListener("keydown", (event) => {
  if (root.dataset.searchKey === "off") return;
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const { target } = event;
  if (target.isContentEditable || target.matches?.("textarea, select, input:not([type=checkbox], [type=radio])"))
    return;
  const fields = document.querySelectorAll('input[aria-keyshortcuts="/"]');
  const field = [...fields].find(({ offsetParent }) => offsetParent !== null);
  if (!field) return;
  event.preventDefault();
  field.focus();
  field.select();
});
