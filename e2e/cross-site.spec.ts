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
