import { press, refuse, type Scene, statesOf } from "../define-states.ts";

const kind =
  (name: string) =>
  ({ world }: Scene) =>
    `/workspaces/${world.empty}/ai/playground?kind=${name}`;

async function say({ page }: Scene, words: string, model: string): Promise<void> {
  await page.getByLabel("Model", { exact: true }).selectOption(model);
  await page.getByLabel("Message").fill(words);
  await press(page, "Send");
}

const weather = JSON.stringify([
  { type: "function", function: { name: "weather", parameters: { type: "object", properties: { city: {} } } } },
]);

/** The playground's pages, before and after a model answers. */
export const playgroundStates = statesOf("Playground", [
  ["Chat", "studio/playground", "user", kind("chat")],
  ["Chat, nothing typed", "studio/playground", "user", kind("chat"), ({ page }) => refuse(page, "Send")],
  [
    "Chat, answered",
    "studio/playground",
    "user",
    kind("chat"),
    async (scene) => {
      await say(scene, "Which stars can I see tonight?", "demo-chat");
      await scene.page.getByRole("list", { name: "About this answer" }).first().waitFor();
    },
  ],
  [
    "Chat, a tool is called",
    "studio/playground",
    "user",
    kind("chat"),
    async (scene) => {
      await scene.page.getByText("Tools", { exact: true }).click();
      await scene.page.getByLabel("Tool definitions").fill(weather);
      await say(scene, 'call weather with {"city":"Rome"}', "demo-chat");
      await scene.page.getByLabel("Result of weather").waitFor();
    },
  ],
  [
    "Chat, the provider fails",
    "studio/playground",
    "user",
    kind("chat"),
    async (scene) => {
      await say(scene, "Which stars can I see tonight?", "demo-error-500");
      await scene.page.getByRole("alert").first().waitFor();
    },
  ],
  ["Speech", "studio/playground", "user", kind("speech")],
  [
    "Speech, spoken",
    "studio/playground",
    "user",
    kind("speech"),
    async ({ page }) => {
      await page.getByLabel("Text", { exact: true }).fill("The sky is clear until four.");
      await press(page, "Generate speech");
      await page.getByRole("link", { name: "Download WAV" }).waitFor();
    },
  ],
  ["Embeddings", "studio/playground", "user", kind("embeddings")],
  [
    "Embeddings, compared",
    "studio/playground",
    "user",
    kind("embeddings"),
    async ({ page }) => {
      await page.getByLabel("Texts").fill("northern lights\naurora borealis\nquarterly invoice");
      await press(page, "Embed");
      await page.getByRole("row").nth(2).waitFor();
    },
  ],
]);
