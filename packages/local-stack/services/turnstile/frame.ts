/** The widget's frame, which requests a token as soon as it loads and passes it to the surrounding page. */
export const framePage = `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Local bot challenge</title>
<style>
:root { color-scheme: light dark; font: 14px/1.5 system-ui, sans-serif; }
body { margin: 0; }
main { box-sizing: border-box; min-height: 100vh; padding: 8px 12px; border: 1px solid GrayText; color: CanvasText; background: Canvas; }
p { margin: 0; }
</style></head>
<body><main aria-label="Local bot challenge"><p id="state">Checking…</p><p>Local stand-in for Turnstile</p></main>
<script type="module">
const asked = Object.fromEntries(new URLSearchParams(location.search));
const tell = (message) => parent.postMessage({ source: "local-turnstile", id: asked.id, ...message }, "*");
try {
  const response = await fetch("/challenge", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ siteKey: asked.siteKey, hostname: asked.hostname }),
  });
  const answer = await response.json();
  state.textContent = answer.token ? "You are a person" : "Error " + answer.error;
  tell(answer);
} catch {
  state.textContent = "Error 300030";
  tell({ error: "300030" });
}
</script></body></html>`;
