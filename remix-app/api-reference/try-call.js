// Sends the requests of "Try it" forms with the visitor's own session and shows the responses.
const maxAnswerLength = 100_000;

for (const form of document.querySelectorAll("form[data-try]")) {
  form.hidden = false;
  const button = form.querySelector("button");
  const answerPanel = form.querySelector("[data-answer]");
  const [facts, body] = answerPanel.children;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (button.disabled) return;
    button.disabled = true;
    const { url, options } = requestOf(form);
    const started = performance.now();
    try {
      const response = await fetch(url, options);
      const text = await response.text();
      const elapsedMs = Math.round(performance.now() - started);
      facts.textContent = `${response.status} ${response.statusText} · ${elapsedMs} ms · ${options.method} ${url}`;
      body.textContent = readable(text).slice(0, maxAnswerLength) || "(empty)";
    } catch {
      facts.textContent = "The request failed. Check your connection and try again.";
      body.textContent = "";
    }
    body.hidden = body.textContent === "";
    answerPanel.hidden = false;
    button.disabled = false;
  });
}

function requestOf(form) {
  const fields = new FormData(form);
  const path = form.dataset.try.replaceAll(/\{(\w+)\}/g, (_, name) => encodeURIComponent(fields.get(`path:${name}`)));
  const query = new URLSearchParams();
  for (const [name, value] of fields) if (name.startsWith("query:") && value) query.append(name.slice(6), value);
  const method = form.dataset.tryMethod;
  const headers = { Accept: "application/json" };
  if (method === "GET") return { url: query.size > 0 ? `${path}?${query}` : path, options: { method, headers } };
  headers["Content-Type"] = "application/json";
  // The server refuses this request if another account has become active since the page was loaded.
  headers["X-Page-Account"] = document.documentElement.dataset.account;
  return { url: path, options: { method, headers, body: fields.get(`body:${form.dataset.tryId}`) } };
}

function readable(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
