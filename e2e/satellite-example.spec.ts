import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { freePort } from "../remix-app/testing/web-process.ts";
import { createApp, mint, signInAgain } from "../scripts/test/apps.ts";
import { readStack } from "../scripts/test/stack.ts";
import { test as base, expect } from "./test.ts";

/** The satellite that docs/satellites.md has in full, as a process of its own. */
const test = base.extend<{ memo: { origin: string; name: string } }>({
  // biome-ignore lint/correctness/noEmptyPattern: Playwright reads the parameter's pattern
  memo: async ({}, use) => {
    const source =
      /^```js needs=browser\n([\s\S]*?)^```$/m.exec(await readFile("docs/satellites.md", "utf8"))?.[1] ?? "";
    expect(source.trimEnd().split("\n").length).toBeLessThanOrEqual(40);
    const directory = await mkdtemp(path.join(tmpdir(), "satellite-"));
    const file = path.join(directory, "satellite.mjs");
    await writeFile(file, source);
    const origin = `http://127.0.0.1:${await freePort()}`;
    const app = await createApp({ scopes: ["profile"], displayName: "Memo", origins: [origin] });
    const child = spawn(process.execPath, [file], {
      stdio: ["ignore", "inherit", "inherit"],
      env: {
        NODE_ENV: "production",
        APP_NAME: app.name,
        APP_SECRET: app.secret,
        ORIGIN: origin,
        CENTRAL_URL: readStack().base,
      },
    });
    await expect
      .poll(() =>
        fetch(`${origin}/verify-token`)
          .then((answer) => answer.status)
          .catch(() => 0),
      )
      .toBe(200);
    await use({ origin, name: app.name });
    child.kill();
    await once(child, "exit");
    await rm(directory, { recursive: true });
  },
});

test("the example of the guide signs people in and out, and lets nobody else do it for them", async ({
  page,
  context,
  member,
  colleague,
  memo,
}) => {
  const there = `${memo.origin}/notes/7?tab=2`;
  await page.goto(there);
  await page.getByLabel("Email").fill(member.email);
  await page.getByLabel("Password", { exact: true }).fill(member.password);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.getByRole("button", { name: `Continue as ${member.email}` }).click();
  await expect(page).toHaveURL(there);
  await expect(page.getByText(`Signed in as ${member.email}`)).toBeVisible();
  const [session] = (await context.cookies(memo.origin)).filter(({ name }) => name === "platform_app_session");
  expect(session).toMatchObject({ domain: "127.0.0.1", httpOnly: true, secure: true, sameSite: "Lax" });

  // Somebody else's link changes nothing here.
  const token = await mint(await signInAgain(colleague), { id: "", name: memo.name, secret: "" });
  await page.goto(`${memo.origin}/verify-token?token=${token}&nextUrl=https://evil.example/&state=theirs`);
  await expect(page).toHaveURL(`${memo.origin}/`);
  await expect(page.getByText(`Signed in as ${member.email}`)).toBeVisible();
  const forged = { method: "POST", body: "", headers: { origin: "https://evil.example" } };
  expect((await fetch(`${memo.origin}/sign-out`, forged)).status).toBe(403);

  await page.evaluate(() => fetch("/sign-out", { method: "POST", redirect: "manual" }));
  await page.goto(there);
  await expect(page.getByRole("button", { name: `Continue as ${member.email}` })).toBeVisible();
});
