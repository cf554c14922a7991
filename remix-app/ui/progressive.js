// Adds conveniences to pages that are not hydrated. The pages work without this script.
for (const button of document.querySelectorAll("button[data-reveals]")) {
  const input = document.getElementById(button.dataset.reveals);
  button.hidden = false;
  button.addEventListener("click", () => {
    const reveal = input.type === "password";
    input.type = reveal ? "text" : "password";
    button.setAttribute("aria-pressed", String(reveal));
    button.firstElementChild.textContent = reveal ? "Hide" : "Show";
  });
  // Prevents the browser from saving a shown password as text.
  input.form.addEventListener("submit", () => {
    input.type = "password";
  });
}
for (const button of navigator.clipboard ? document.querySelectorAll("button[data-copies]") : []) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.dataset.copies);
    button.firstElementChild.textContent = "Copied";
  });
}
for (const button of document.querySelectorAll("button[data-prints]")) {
  button.hidden = false;
  button.addEventListener("click", () => print());
}
// Prevents a double click from submitting a form twice. Allows another submission later, in case the user stopped the
// first.
const resendAfterMs = 3000;
for (const form of document.querySelectorAll("form[data-once]")) {
  form.addEventListener("submit", (event) => {
    if (form.dataset.sent) event.preventDefault();
    form.dataset.sent = "true";
    setTimeout(() => delete form.dataset.sent, resendAfterMs);
  });
}
