import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import path from "node:path";
import type { Page } from "playwright/test";
import { freePort } from "../remix-app/testing/web-process.ts";
import { satelliteApps } from "../scripts/satellites/apps.ts";
import { createApp } from "../scripts/test/apps.ts";
import { createOpenidClient } from "../scripts/test/openid.ts";
import { query } from "../scripts/test/people.ts";
import { readStack } from "../scripts/test/stack.ts";
import { expect, type Person, test } from "./test.ts";

const chosen = (process.env.SATELLITE_APPS ?? "").split(",");
const startTimeoutMs = 30_000;

async function signInFor(page: Page, { email, password }: Person): Promise<void> {
  await page.getByLabel("Email").fill(email);
  await page.getByLabel("Password", { exact: true }).fill(password);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.getByRole("button", { name: `Continue as ${email}` }).click();
}

/** Registers a satellite. @returns the settings that it starts with */
async function registerSatellite(name: string, origin: string): Promise<Record<string, string>> {
  const app = await createApp({ scopes: ["profile"], displayName: name, origins: [origin] });
  await query("update private.apps set backchannel_logout_uri = $2 where id = $1", [
    app.id,
    `${origin}/api/auth/backchannel-logout`,
  ]);
  return {
    BASE_URL: origin,
    APP_NAME: app.name,
    APP_SECRET: app.secret,
    CENTRAL_URL: readStack().base,
  };
}

/** Registers an OpenID client for an app that uses Auth.js or passport-openidconnect. @returns the app's settings */
async function registerClient(name: string, origin: string): Promise<Record<string, string>> {
  const isPassport = name === "passport";
  const { id, secret } = await createOpenidClient({
    redirectUris: [`${origin}${isPassport ? "/oauth2/redirect" : "/auth/callback/gatehouse"}`],
    requiresPkce: !isPassport,
    claimsInIdToken: true,
  });
  return {
    ISSUER: readStack().base,
    CLIENT_ID: id,
    CLIENT_SECRET: secret ?? "",
    AUTH_SECRET: randomBytes(32).toString("base64url"),
    SESSION_SECRET: randomBytes(32).toString("base64url"),
  };
}

/** Starts an installed app with the settings of its registration. */
async function startApp({
  name,
  start,
  isOpenidClient,
}: (typeof satelliteApps)[number]): Promise<{ origin: string; child: ChildProcess }> {
  const port = await freePort();
  const origin = `http://127.0.0.1:${port}`;
  const settings = await (isOpenidClient ? registerClient(name, origin) : registerSatellite(name, origin));
  const { PATH = "" } = process.env;
  const child = spawn(process.execPath, [...start], {
    cwd: path.resolve(".local/satellite-apps", name),
    stdio: ["ignore", "inherit", "inherit"],
    env: {
      PATH,
      NODE_ENV: "production",
      NEXT_TELEMETRY_DISABLED: "1",
      PORT: String(port),
      HOST: "127.0.0.1",
      ...settings,
    },
  });
  const status = () =>
    fetch(origin).then(
      (answer) => answer.status,
      () => 0,
    );
  await expect.poll(status, { timeout: startTimeoutMs }).toBe(200);
  return { origin, child };
}

const chosenApps = satelliteApps.filter(({ name }) => chosen.includes(name));
for (const app of chosenApps.filter(({ isOpenidClient }) => !isOpenidClient)) {
  test(`a new ${app.name} app with the code from the documentation signs people in and out`, async ({
    page,
    context,
    member,
  }) => {
    const { origin, child } = await startApp(app);
    try {
      await page.goto(origin);
      await expect(page.getByText(/Hello (World|Hono)!/)).toBeVisible();
      await page.goto(`${origin}/private?from=mail`);
      await signInFor(page, member);
      await expect(page).toHaveURL(`${origin}/private?from=mail`);
      const menu = page.locator("account-menu summary");
      // For an account without a name, the menu shows the part of the email before the @.
      await expect(menu).toHaveText(member.email.split("@")[0] ?? "");
      await page.goto(origin);
      await expect(page.getByText(`Hello ${member.email}!`)).toBeVisible();
      await page.goto(`${origin}/private`);
      await menu.click();
      await expect(page.locator("account-menu p")).toHaveText(member.email);
      await expect(page.getByRole("link", { name: "Switch account" })).toBeVisible();
      await page.getByRole("button", { name: "Sign out" }).click();
      await expect(page.getByText(/Hello (World|Hono)!/)).toBeVisible();
      const held = (await context.cookies(origin)).filter(({ name }) => name.includes("platform_"));
      expect(held).toEqual([]);
    } finally {
      child.kill();
      await once(child, "exit");
    }
  });

  test(`a new ${app.name} app ends a session when the platform posts a logout token`, async ({ page, member }) => {
    const { origin, child } = await startApp(app);
    try {
      await page.goto(`${origin}/private`);
      await signInFor(page, member);
      await expect(page).toHaveURL(`${origin}/private`);
      await page.goto(origin);
      await expect(page.getByText(`Hello ${member.email}!`)).toBeVisible();
      await query("delete from auth.sessions where user_id = (select id from auth.users where email = $1)", [
        member.email,
      ]);
      // Without a token, the app asks the platform only after 60 seconds.
      await expect(async () => {
        await page.goto(origin);
        await expect(page.getByText(/Hello (World|Hono)!/)).toBeVisible({ timeout: 200 });
      }).toPass({ timeout: 20_000, intervals: [200] });
    } finally {
      child.kill();
      await once(child, "exit");
    }
  });
}

for (const app of chosenApps.filter(({ isOpenidClient }) => isOpenidClient)) {
  test(`a new ${app.name} app with the code from the documentation signs people in and out by OpenID Connect`, async ({
    page,
    member,
  }) => {
    const { origin, child } = await startApp(app);
    try {
      const isPassport = app.name === "passport";
      await page.goto(`${origin}${isPassport ? "/login" : "/auth/signin"}`);
      if (!isPassport) await page.getByRole("button", { name: "Sign in with Gatehouse" }).click();
      await signInFor(page, member);
      await expect(page.getByText(`Hello ${member.email}!`)).toBeVisible();
      await page.getByRole("link", { name: "Sign out" }).click();
      if (!isPassport) await page.getByRole("button", { name: "Sign out" }).click();
      await expect(page.getByText("Hello World!")).toBeVisible();
    } finally {
      child.kill();
      await once(child, "exit");
    }
  });
}
