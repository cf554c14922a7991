import type { Page } from "playwright/test";
import { codeOf } from "../remix-app/testing/authenticator-app.ts";
import { insertAuthenticators, query, requireMfa } from "../scripts/test/people.ts";
import { chromiumOnly } from "./firefox.ts";
import { enter, expect, expectWellMade, type Person, signIn, test } from "./test.ts";

const weather = JSON.stringify([
  {
    type: "function",
    function: { name: "weather", parameters: { type: "object", properties: { city: { type: "string" } } } },
  },
]);

async function playgroundOf({ email }: Person): Promise<string> {
  const [workspace] = await query<{ id: string }>(
    "select w.id from public.workspaces w join auth.users u on u.id = w.personal_user_id where u.email = $1",
    [email],
  );
  return `/workspaces/${workspace?.id}/ai/playground`;
}

const conversationOn = (page: Page) => page.getByRole("region", { name: "Conversation" });

async function say(page: Page, words: string, { model = "demo-chat" } = {}): Promise<void> {
  await page.getByLabel("Model", { exact: true }).selectOption(model);
  await page.getByLabel("Message").fill(words);
  await page.getByLabel("Message").press("Control+Enter");
}

test("the playground streams and stops answers, calls tools and checks answers against a schema", async ({
  page,
  member,
}) => {
  const playground = await playgroundOf(member);
  await enter(page, member, playground);
  const conversation = conversationOn(page);
  await expect(page.getByLabel("Model", { exact: true })).toHaveValue("demo-chat");

  await page.getByRole("button", { name: "Send" }).click();
  await expect(page.getByRole("alert")).toContainText("Write a message.");
  await expect(page.getByRole("alert")).toBeFocused();

  await test.step("the playground streams an answer, and Escape stops it and shows the cost so far", async () => {
    await say(page, "continue", { model: "demo-paced" });
    await expect(conversation).toContainText("word5");
    await expect(page.getByRole("button", { name: "Stop" })).toBeVisible();
    await expect(page.getByRole("status").filter({ hasText: "Answering…" })).toHaveCount(1);
    await page.keyboard.press("Escape");
    await expect(conversation).toContainText("Stopped. What you received is metered.");
    await expect(conversation).not.toContainText("word99");
    await expect(page.getByRole("button", { name: "Stop" })).toHaveCount(0);
    await expect(conversation.getByRole("list", { name: "About this answer" })).toContainText(/[1-9]\d* tokens out/);
    const runId = (await conversation.getByRole("link", { name: "View run" }).getAttribute("href"))?.split("/").at(-1);
    const runs = await query("select status, feature, output_tokens > 0 as metered from ai.runs where id = $1", [
      runId,
    ]);
    expect(runs).toEqual([{ status: "cancelled", feature: "playground", metered: true }]);
  });

  await test.step("the playground renders answers as plain text and announces them once to screen readers", async () => {
    await page.getByRole("link", { name: "New conversation" }).click();
    await expect(conversation).toContainText("No messages yet.");
    await say(page, '<img src="x" onerror="document.title = 1"> <b>bold</b>');
    await expect(conversation.getByText("<b>bold</b>")).toHaveCount(2);
    await expect(conversation.locator("img, b")).toHaveCount(0);
    await expect(page.getByRole("status").filter({ hasText: "You said: <img" })).toHaveCount(1);
    await expect(conversation.getByRole("list", { name: "About this answer" })).toContainText("first token after");
    await expect(page.getByLabel("Message")).toBeFocused();
  });

  await test.step("the playground calls a tool whose result is entered by hand", async () => {
    await page.getByText("Tools", { exact: true }).click();
    await page.getByLabel("Tool definitions").fill("[");
    await say(page, 'call weather with {"city":"Rome"}');
    await expect(page.getByRole("alert")).toContainText("Enter a JSON array of tools");
    await page.getByLabel("Tool definitions").fill(weather);
    await page.getByLabel("Message").press("Control+Enter");
    await expect(conversation.getByRole("figure")).toContainText('"city": "Rome"');
    await expect(page.getByLabel("Result of weather")).toBeFocused();
    await page.getByLabel("Result of weather").fill('{"sky":"clear"}');
    await page.keyboard.press("Control+Enter");
    await expect(conversation).toContainText('The tool answered: {"sky":"clear"}');
    await expect(page.getByLabel("Message")).toBeFocused();
    await page.getByLabel("Tool definitions").fill("");
    await expect(page.getByLabel("Tool definitions")).toBeVisible();
  });

  await test.step("the playground reports whether an answer matches the schema", async () => {
    await page.getByLabel("Answer format").selectOption("json_schema");
    await say(page, "in JSON");
    await expect(conversation).toContainText("It matches the schema.");
    await say(page, "in JSON", { model: "demo-bad-schema" });
    await expect(conversation).toContainText("It doesn’t match the schema.");
    await page.getByLabel("Answer format").selectOption("text");
  });

  await test.step("the playground reports a failure in one sentence and keeps the typed values", async () => {
    await say(page, "half of it", { model: "demo-error-midway" });
    await expect(conversation).toContainText("The answer was cut off here.");
    await say(page, "remember me", { model: "demo-error-500" });
    await expect(page.getByRole("alert")).toContainText("The model’s provider failed. Try again");
    await expect(page.getByRole("alert")).toContainText("Request ID");
    await expect(page.getByLabel("Message")).toHaveValue("remember me");
  });
  await expectWellMade(page);
});

test("the playground exports the request as code", chromiumOnly.requestBody, async ({ page, member }) => {
  await enter(page, member, await playgroundOf(member));
  await page.getByLabel("Message").fill("Hello");
  await page.getByLabel("System prompt").fill("It's “brief”.");
  await page.getByLabel("Temperature").fill("0.5");
  await page.getByText("curl", { exact: true }).first().click();
  const code = (await page.getByRole("figure").filter({ hasText: "Copy curl" }).getByRole("code").textContent()) ?? "";
  const asked = page.waitForRequest((request) => request.url().endsWith("/ai/playground/chat"));
  await page.getByRole("button", { name: "Send" }).click();
  const [, data = ""] = /-d '([\s\S]*)'$/.exec(code) ?? [];
  expect(JSON.parse(data.replaceAll(`'\\''`, "'"))).toEqual((await asked).postDataJSON());
  expect((await asked).headers()).not.toHaveProperty("authorization");
});

test("speech is played and downloaded, and embeddings are compared", async ({ page, member }) => {
  const playground = await playgroundOf(member);
  await enter(page, member, `${playground}?kind=speech`);
  const sound = page.getByLabel("Text spoken");
  const seconds = () => sound.evaluate((audio: HTMLAudioElement) => audio.duration);
  for (const format of ["wav", "pcm"]) {
    await page.getByLabel("Format").selectOption(format);
    await page.getByLabel("Text", { exact: true }).fill("Hello, this is a sentence.");
    await page.getByRole("button", { name: "Generate speech" }).click();
    const link = page.getByRole("link", { name: `Download ${format.toUpperCase()}` });
    await expect(link).toHaveAttribute("download", `speech.${format}`);
    await expect.poll(seconds).toBeGreaterThan(0.5);
  }
  await expectWellMade(page);

  await page.getByRole("link", { name: "Embeddings" }).click();
  await page.getByLabel("Texts").fill("one\none\ntwo");
  await page.getByRole("button", { name: "Embed" }).click();
  await expect(page.getByRole("row").nth(2)).toContainText("1.000");
  await expectWellMade(page);
});

test("a playground conversation cannot continue as another account", async ({ context, page, member, colleague }) => {
  await enter(page, member, await playgroundOf(member));
  await page.getByLabel("Message").fill("Whose words are these?");
  const other = await context.newPage();
  await signIn(other, colleague, { at: "/add-account" });
  await expect(page.getByText(`You’re signed in as ${colleague.email} in another tab.`)).toBeVisible();
  await page.getByRole("button", { name: "Send" }).click();
  await expect(page.getByRole("alert")).toContainText("You’re now signed in to another account.");
  await expect(page.getByLabel("Message")).toHaveValue("Whose words are these?");
});

test("if MFA becomes required while the playground is open, passing the second step leads back to the playground", async ({
  page,
  member,
}) => {
  const playground = await playgroundOf(member);
  await enter(page, member, playground);
  await expect(page.getByRole("button", { name: "Send" })).toBeVisible();
  const [user] = await query<{ id: string }>("select id from auth.users where email = $1", [member.email]);
  const id = user?.id ?? "";
  const [app] = await insertAuthenticators({ id }, ["Phone"]);
  await requireMfa({ id });
  await say(page, "Hello");
  await page.waitForURL((url) => url.pathname === "/mfa");
  await page.getByLabel("6-digit code").fill(codeOf({ secret: app?.secret ?? "" }));
  await page.getByRole("button", { name: "Verify" }).click();
  await page.waitForURL((url) => url.pathname === playground);
  await say(page, "Hello again");
  await expect(conversationOn(page).getByRole("list", { name: "About this answer" })).toBeVisible();
});
