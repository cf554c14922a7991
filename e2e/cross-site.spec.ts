import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { enter, expect, test } from "./test.ts";

/** Serves a page on another origin that immediately posts a form to us. */
async function hostilePage(action: string, fields: Record<string, string>) {
  const inputs = Object.entries(fields).map(([name, value]) => `<input type="hidden" name="${name}" value="${value}">`);
  const html = `<!doctype html><title>x</title><form method="post" action="${action}">${inputs.join("")}</form><script>document.forms[0].submit()</script>`;
  const server = createServer((_, response) => response.setHeader("Content-Type", "text/html").end(html));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { port: (server.address() as AddressInfo).port, close: () => server.close() };
}

for (const [relation, host] of [
  ["another site", "127.0.0.1"],
  ["a sibling origin of the same site", "localhost"],
] as const) {
  test(`a form on ${relation} can neither sign a visitor out nor sign them in`, async ({ page, member, baseURL }) => {
    await enter(page, member);
    await expect(page).toHaveURL("/");
    for (const path of ["/logout", "/theme", "/login"]) {
      const hostile = await hostilePage(`${baseURL}${path}`, { theme: "dark", email: "a@b.example", password: "x" });
      try {
        const answer = page.waitForResponse((response) => response.url() === `${baseURL}${path}`);
        await page.goto(`http://${host}:${hostile.port}/`).catch(() => undefined);
        const response = await answer;
        expect(response.status()).toBe(403);
        expect(await response.headerValue("set-cookie")).toBeNull();
        await expect(page.getByRole("heading", { name: "This request came from another site" })).toBeVisible();
      } finally {
        hostile.close();
      }
    }
    await page.goto("/");
    await expect(page.getByRole("heading", { name: "Home" })).toBeVisible();
  });
}

test("a request that changes state must come from our origin, regardless of its content type", async ({
  request,
  baseURL,
}) => {
  const attempts: Record<string, string>[] = [
    {},
    { origin: "https://evil.example" },
    { origin: "null" },
    { origin: baseURL ?? "", "sec-fetch-site": "same-site" },
    { "sec-fetch-site": "cross-site" },
    { "sec-fetch-site": "none" },
  ];
  for (const headers of attempts) {
    for (const path of ["/logout", "/logout.data", "/theme", "/login"]) {
      const form = await request.post(path, { headers, form: { theme: "dark" }, maxRedirects: 0 });
      expect(form.status(), `${path} ${JSON.stringify(headers)}`).toBe(403);
      expect(await form.json()).toMatchObject({ code: "CSRF_REJECTED", requestId: form.headers()["x-request-id"] });
      const text = await request.post(path, {
        headers: { ...headers, "content-type": "text/plain" },
        data: "theme=dark",
        maxRedirects: 0,
      });
      expect(text.status()).toBe(403);
    }
  }
  const own = await request.post("/theme", {
    headers: { origin: baseURL ?? "" },
    form: { theme: "dark" },
    maxRedirects: 0,
  });
  expect(own.status()).toBe(303);
});
