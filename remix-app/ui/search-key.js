// Focuses the page's search field when "/" is pressed, unless that types into a field.
document.addEventListener("keydown", (event) => {
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
