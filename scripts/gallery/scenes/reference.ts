import { press, type Scene, statesOf } from "../define-states.ts";
import { cookiesOf } from "../visitors.ts";

const first =
  (area: string) =>
  async ({ page }: Scene) => {
    await page.goto("/docs/api");
    const href = await page.locator(`a[href^="/docs/api/${area}/"]:not([href*="#"])`).first().getAttribute("href");
    return href ?? "";
  };

/** The guides and the API reference. */
export const referenceStates = statesOf("API reference", [
  ["Guides", "docs/guide", "anonymous", "/docs"],
  ["A guide", "docs/guide", "anonymous", "/docs/errors#budget_exceeded"],
  ["Overview", "docs/api", "anonymous", "/docs/api"],
  ["Calls of the platform", "docs/tag", "anonymous", first("platform")],
  ["Calls of the gateway", "docs/tag", "anonymous", first("gateway")],
  [
    "A call, tried",
    "docs/tag",
    "user",
    "/docs/api/platform/workspaces",
    async ({ page }) => {
      const call = page.getByRole("region", { name: "List the caller's workspaces" });
      await call.getByText("Try it", { exact: true }).click();
      await press(page, "Send request");
      await call.getByText(/^200 OK/).waitFor();
    },
  ],
]);

/** Error pages. */
export const refusalStates = statesOf("Refusals", [
  ["Not found", "not-found", "anonymous", "/nowhere", 404],
  ["Not allowed", "studio/keys", "member", ({ world }) => `/workspaces/${world.busy}/ai/keys`, 403],
  ["Not allowed, the console", "admin/overview", "user", "/admin", 403],
  ["Another's workspace", "workspaces/workspace", "guest", ({ world }) => `/workspaces/${world.busy}`, 404],
  [
    "From another site",
    "not-found",
    "anonymous",
    "/login",
    async ({ page }) => {
      const action = new URL("/login", page.url()).href;
      await page.goto(`data:text/html,<form method="post" action="${action}"><button>Go</button></form>`);
      await page.getByRole("button", { name: "Go" }).click();
      await page.getByRole("heading", { name: "This request came from another site" }).waitFor();
    },
  ],
  [
    "The identity backend is gone",
    "not-found",
    "guest",
    async (scene) => `${await scene.world.outposts.cutOff()}/workspaces`,
    503,
  ],
  [
    "Something went wrong on our side",
    "home",
    "anonymous",
    async ({ page, world }) => {
      const { base, cookie } = await world.outposts.misled();
      await page.context().addCookies(cookiesOf(cookie, base));
      return base;
    },
    500,
  ],
]);
