// Implements the part of Turnstile's api.js that is used by pages with explicit rendering.
(() => {
  const origin = new URL(document.currentScript.src).origin;
  const widgets = new Map();

  function start(id) {
    const { holder, options } = widgets.get(id);
    const frame = document.createElement("iframe");
    const query = new URLSearchParams({ id, siteKey: options.sitekey, hostname: location.hostname });
    frame.src = `${origin}/frame?${query}`;
    frame.title = "Widget of the local bot challenge";
    frame.width = options.size === "compact" ? "150" : "100%";
    frame.height = options.size === "compact" ? "140" : "65";
    frame.style.border = "0";
    frame.style.display = "block";
    holder.replaceChildren(frame);
  }

  addEventListener("message", ({ origin: sender, data }) => {
    if (sender !== origin || data?.source !== "local-turnstile") return;
    const { options } = widgets.get(data.id) ?? {};
    if (data.token) options?.callback?.(data.token);
    else options?.["error-callback"]?.(data.error);
  });

  window.turnstile = {
    render(holder, options) {
      const id = `local-${widgets.size}`;
      widgets.set(id, { holder, options });
      start(id);
      return id;
    },
    reset: start,
  };
})();
