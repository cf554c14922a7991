// Takes the token out of the address bar and the history, then finishes a sign-in that this browser has started.
history.replaceState(null, "", "/verify-token");
const form = document.getElementById("handoff");
if (form.dataset.auto === "true") {
  const { token, state, nextUrl } = Object.fromEntries(new FormData(form));
  const response = await fetch("/api/auth/verify-app-token", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ token, state }),
  }).catch(() => null);
  // Where it failed, the form says why; where nobody answered, the button is there to try again.
  if (response?.ok) location.replace(nextUrl);
  else if (response?.status === 401) form.requestSubmit();
}
