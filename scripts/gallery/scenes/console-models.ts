import type { Page } from "playwright";
import { explain, press, refuse, type Scene, statesOf } from "../define-states.ts";

/** Fills in a new model with a route to the demo provider. */
async function fillModel(page: Page, { id = "harbour-large", model = "demo-chat" } = {}): Promise<void> {
  await page.getByLabel("ID", { exact: true }).fill(id);
  await page.getByLabel("Name", { exact: true }).fill("Harbour large");
  await page.getByLabel("Owned by").fill("harbour");
  await page.getByLabel("Provider of route 1").selectOption("demo");
  await page.getByLabel("Provider’s model name of route 1").fill(model);
}

/** Shows the results of test calls. */
async function testRoutes({ page }: Scene, model: string): Promise<void> {
  await fillModel(page, { model });
  await press(page, "Add route");
  await page.getByLabel("Provider of route 2").selectOption("demo_messages");
  await page.getByLabel("Provider’s model name of route 2").fill("demo-messages");
  await press(page, "Test");
  await page.getByRole("status", { name: "Test of route 2" }).waitFor();
}

/** The console's pages about models. */
export const consoleModelStates = statesOf("Console", [
  ["Models", "admin/models", "admin", "/admin/models"],
  ["A model", "admin/models", "admin", "/admin/models?model=demo-chat"],
  ["Models, none found", "admin/models", "admin", "/admin/models?q=nothing-of-that-name"],
  ["Add a model", "admin/model-setup", "admin", "/admin/models/new"],
  [
    "Add a model, refused",
    "admin/model-setup",
    "admin",
    "/admin/models/new",
    async ({ page }) => {
      await press(page, "Add route");
      await refuse(page, "Add model");
    },
  ],
  [
    "Add a model, routes tested",
    "admin/model-setup",
    "admin",
    "/admin/models/new",
    (scene) => testRoutes(scene, "demo-chat"),
  ],
  [
    "Add a model, a test failed",
    "admin/model-setup",
    "admin",
    "/admin/models/new",
    (scene) => testRoutes(scene, "no-such-model"),
  ],
  [
    "Add a model, missing settings",
    "admin/model-setup",
    "admin",
    "/admin/models/new",
    async ({ page }) => {
      await page.getByLabel("Provider of route 1").selectOption("");
      await press(page, "More settings of route 1");
      await page.getByLabel("Provider’s ID of route 1").fill("eu_openai");
      await press(page, "Add route");
      await page.getByText("Calls skip this route until the functions have").first().waitFor();
    },
  ],
  [
    "Add a model, previewed",
    "admin/model-setup",
    "admin",
    "/admin/models/new",
    async ({ page }) => {
      await fillModel(page);
      await page.getByLabel("Input price of demo").fill("2.5");
      await page.getByLabel("Output price of demo").fill("10");
      await page.getByLabel("Enable model").check();
      await press(page, "Preview");
      await page.getByText("Preview: nothing is changed yet").waitFor();
    },
  ],
  [
    "Add a model, a part refused",
    "admin/model-setup",
    "admin",
    "/admin/models/new",
    async (scene) => {
      await fillModel(scene.page, { id: "demo-chat" });
      await explain(scene, "Add model");
      await scene.page.getByText("Another model already has this ID.").first().waitFor();
    },
  ],
  ["Edit a model", "admin/model-setup", "admin", "/admin/models/edit?model=demo-agent"],
  [
    "Edit a model, everything shown",
    "admin/model-setup",
    "admin",
    "/admin/models/edit?model=demo-chat",
    async ({ page }) => {
      await press(page, "More settings of route 1");
      await press(page, "More prices of demo");
      await page.getByLabel("Image input price of demo").waitFor();
    },
  ],
  [
    "Edit a model, last route disabled",
    "admin/model-setup",
    "admin",
    "/admin/models/edit?model=demo-chat",
    async (scene) => {
      await scene.page.getByLabel("Enabled of route 1").uncheck();
      await explain(scene, "Save changes");
      await scene.page.getByLabel(/to confirm$/).waitFor();
    },
  ],
  ["Disable a model", "admin/models-change", "admin", "/admin/models/disable?model=demo-chat"],
  ["Grant a model", "admin/models-change", "admin", "/admin/models/grant?model=demo-chat"],
  ["Withdraw a grant", "admin/models-change", "admin", "/admin/models/withdraw?model=demo-chat&plan=team"],
  [
    "Add a price",
    "admin/models-change",
    "admin",
    "/admin/models?model=demo-chat",
    async ({ page }) => {
      await page
        .getByRole("link", { name: /^Add price/ })
        .first()
        .click();
      await page.getByRole("heading", { level: 1, name: "Add price" }).waitFor();
    },
  ],
  [
    "Cancel a price",
    "admin/models-change",
    "admin",
    "/admin/models/price?model=demo-chat&provider=demo&tier=0",
    async (scene) => {
      const { page } = scene;
      // Picks a random minute, because two prices cannot start in the same minute.
      const minute = new Date(Date.UTC(2090, 0, 1) + Math.floor(Math.random() * 1_000_000) * 60_000);
      await page.getByLabel("Valid from (UTC)").fill(minute.toISOString().slice(0, 16));
      await explain(scene, "Add price");
      await page
        .getByRole("link", { name: /^Cancel the price/ })
        .first()
        .click();
      await page.getByRole("heading", { level: 1, name: "Cancel price" }).waitFor();
    },
  ],
  [
    "A model that is not ready",
    "admin/models",
    "admin",
    "/admin/models/new",
    async (scene) => {
      await fillModel(scene.page, { id: `harbour-${crypto.randomUUID().slice(0, 8)}` });
      await press(scene.page, "Remove route 1");
      await explain(scene, "Add model");
      await scene.page.getByText("Callers get 404 until you fix this:").waitFor();
    },
  ],
]);
