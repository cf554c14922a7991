import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { freePort } from "../remix-app/testing/web-process.ts";
import { createOpenidClient } from "../scripts/test/openid.ts";
import { readStack } from "../scripts/test/stack.ts";
import { test as base, expect } from "./test.ts";

/** Runs the complete openid-client app from docs/openid.md in its own process. */
const test = base.extend<{ charts: { origin: string } }>({
  // biome-ignore lint/correctness/noEmptyPattern: Playwright reads the parameter's pattern
  charts: async ({}, use) => {
    const source = /^```js needs=browser\n([\s\S]*?)^```$/m.exec(await readFile("docs/openid.md", "utf8"))?.[1] ?? "";
    // Creates the folder inside the checkout, so that the app can import openid-client.
    await mkdir(".local", { recursive: true });
    const directory = await mkdtemp(path.resolve(".local/openid-example-"));
    const file = path.join(directory, "app.mjs");
    await writeFile(file, source);
    const origin = `http://127.0.0.1:${await freePort()}`;
    const { id, secret } = await createOpenidClient({
      redirectUris: [`${origin}/callback`],
      postLogoutRedirectUris: [`${origin}/`],
    });
    const child = spawn(process.execPath, [file], {
      stdio: ["ignore", "inherit", "inherit"],
      env: {
        NODE_ENV: "production",
        CLIENT_ID: id,
        CLIENT_SECRET: secret ?? "",
        ISSUER: readStack().base,
        ORIGIN: origin,
      },
    });
    await expect
      .poll(() =>
        fetch(origin)
          .then((answer) => answer.status)
          .catch(() => 0),
      )
      .toBe(200);
    await use({ origin });
    child.kill();
    await once(child, "exit");
    await rm(directory, { recursive: true });
  },
});

test("the openid-client app from the guide signs a person in and out", async ({ page, member, charts }) => {
  await page.goto(`${charts.origin}/sign-in`);
  await page.getByLabel("Email").fill(member.email);
  await page.getByLabel("Password", { exact: true }).fill(member.password);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await expect(page.getByText("See your name, email and picture")).toBeVisible();
  await page.getByRole("button", { name: `Continue as ${member.email}` }).click();
  await expect(page).toHaveURL(`${charts.origin}/`);
  await expect(page.getByText(`Signed in as ${member.email}`)).toBeVisible();

  // The consent page is skipped, because the platform remembers the earlier consent.
  await page.goto(`${charts.origin}/sign-in`);
  await expect(page.getByText(`Signed in as ${member.email}`)).toBeVisible();

  await page.goto(`${charts.origin}/sign-out`);
  await expect(page.getByText("Signed out")).toBeVisible();
  await expect(page).toHaveURL(`${charts.origin}/`);
  await page.goto(`${charts.origin}/sign-in`);
  await expect(page.getByLabel("Email")).toBeVisible();
});

test("the openid-client app from the guide rejects a response to a request that it did not send", async ({
  page,
  member,
  charts,
}) => {
  await page.goto(`${charts.origin}/sign-in`);
  await page.getByLabel("Email").fill(member.email);
  await page.goto(`${charts.origin}/callback?code=ghc_stolen&state=theirs&iss=${encodeURIComponent(readStack().base)}`);
  await page.goto(charts.origin);
  await expect(page.getByText("Signed out")).toBeVisible();
});
