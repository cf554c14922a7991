import type { Page } from "playwright/test";
import { asApp, createApp, mint, paths, signInAgain } from "../scripts/test/apps.ts";
import { query } from "../scripts/test/people.ts";
import { readStack } from "../scripts/test/stack.ts";
import { enter, expect, expectWellMade, type Person, test } from "./test.ts";

const notes = readStack().satellites.find(({ name }) => name === "notes")?.url ?? "";
const list = "/settings/security/apps";

/** Signs in to the satellite as a person who is already signed in on the platform. */
async function continueToNotes(page: Page, { email }: Person): Promise<void> {
  await page.goto(`${notes}/sign-in`);
  await page.getByRole("button", { name: `Continue as ${email}` }).click();
}

/** Creates an app that may use AI, and connects it to the person's personal workspace. */
async function connectScribe(person: Person): Promise<void> {
  const [workspace] = await query<{ id: string }>(
    "select w.id from public.workspaces w join auth.users u on u.id = w.personal_user_id where u.email = $1",
    [person.email],
  );
  const workspaceId = workspace?.id ?? "";
  const scopes = ["workspace:session", "ai:use", "tts:use"];
  const app = await createApp({ kind: "external", scopes, workspaceId, displayName: "Scribe" });
  const { status } = await asApp(app, paths.exchange, {
    token: await mint(await signInAgain(person), app),
    workspaceId,
  });
  expect(status).toBe(200);
}

test("a connected app is listed with its permissions, and disconnecting it signs it out immediately", async ({
  page,
  member,
}) => {
  await enter(page, member, "/settings/security");
  await page.getByRole("link", { name: "Manage apps" }).click();
  await expect(page.getByRole("heading", { name: "Connected apps", level: 1 })).toBeVisible();
  await expect(page.getByRole("heading", { name: "No connected apps" })).toBeVisible();

  await connectScribe(member);
  await continueToNotes(page, member);
  await expect(page.getByText(`Signed in as ${member.email}`)).toBeVisible();
  await page.goto(list);
  await expect(page.getByText("See your name, email and picture")).toBeVisible();
  await expect(page.getByText(/^Use AI models and speech in /)).toBeVisible();
  await expect(page.getByText(notes)).toBeVisible();
  await expectWellMade(page);

  await page.getByRole("link", { name: "Disconnect Notes" }).click();
  await expect(page.getByRole("heading", { name: "Disconnect Notes", level: 1 })).toBeVisible();
  await expect(page.getByText(/^You’ll be signed out of .+ on all devices\./)).toBeVisible();
  await expectWellMade(page);
  await page.getByRole("link", { name: "Cancel" }).click();
  await page.getByRole("link", { name: "Disconnect Notes" }).click();
  await page.getByRole("button", { name: "Disconnect" }).click();

  await expect(page.getByRole("status").filter({ hasText: "App disconnected." })).toBeVisible();
  await expect(page.getByRole("heading", { name: "Notes" })).toHaveCount(0);
  await expect(page.getByRole("heading", { name: "Scribe" })).toBeVisible();
  await page.goto(notes);
  await expect(page.getByText("Sign in with your Gatehouse account")).toBeVisible();
  await page.goto("/settings/security/activity");
  await expect(page.getByRole("listitem").filter({ hasText: "Disconnected an app" })).toContainText("Notes");
});
