import { startWeb } from "../remix-app/testing/web-process.ts";
import { readStack } from "../scripts/test/stack.ts";
import { expect, signIn, test } from "./test.ts";

const parentDomain = "gatehouse.localhost";

test("hosts below the parent domain share the auth cookie, and signing out clears it on all of them", async ({
  page,
  context,
  member,
}) => {
  const { url, publishableKey, secretKey } = readStack().supabase;
  const web = await startWeb(url, {
    hostname: `web.${parentDomain}`,
    env: { SUPABASE_PUBLISHABLE_KEY: publishableKey, SUPABASE_SECRET_KEY: secretKey, PARENT_DOMAIN: parentDomain },
  });
  try {
    await signIn(page, member, { at: `${web.base}/login` });
    await expect(page.getByRole("heading", { name: "Home" })).toBeVisible();
    const authCookies = async () => (await context.cookies()).filter(({ name }) => name.startsWith("sb-"));
    expect(await authCookies()).toEqual([
      expect.objectContaining({ domain: `.${parentDomain}`, httpOnly: true, sameSite: "Lax", path: "/" }),
    ]);
    await page.getByRole("button", { name: "Account menu" }).click();
    await page.getByRole("button", { name: "Sign out" }).click();
    await expect(page).toHaveURL(`${web.base}/login`);
    expect(await authCookies()).toEqual([]);
  } finally {
    await web.stop();
  }
});
