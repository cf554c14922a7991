import { maskEmail } from "../remix-app/session/mailed-link.ts";
import { confirmationLink, mailsTo } from "./mailbox.ts";
import { enter, expect, expectAccessible, expectFitsSmallScreens, test } from "./test.ts";

for (const javaScriptEnabled of [true, false]) {
  test.describe(javaScriptEnabled ? "with JavaScript" : "without JavaScript", () => {
    test.use({ javaScriptEnabled });

    test("an email address changes only after both mailboxes confirm, and the pages say which confirmation is missing", async ({
      page,
      browser,
      member,
      newcomer,
    }) => {
      const check = async () => {
        if (javaScriptEnabled) await expectAccessible(page);
        await expectFitsSmallScreens(page);
      };
      await enter(page, member, "/settings/profile");
      await page.getByRole("link", { name: "Change email" }).click();
      await check();
      await page.getByLabel("New email").fill("not-an-email");
      await page.getByRole("button", { name: "Change email" }).click();
      await expect(page.getByRole("alert")).toContainText("Enter an email address");
      await page.getByLabel("New email").fill(newcomer.email);
      await page.getByRole("button", { name: "Change email" }).click();

      await expect(page.getByRole("status").filter({ hasText: "Email change requested." })).toBeVisible();
      const email = page.locator("#email");
      await expect(email.getByText("Not confirmed yet")).toHaveCount(2);
      await check();

      await page.goto(await confirmationLink(newcomer.email));
      await expect(
        page.getByText(`Both addresses must be confirmed. This link confirms ${newcomer.email}.`),
      ).toBeVisible();
      await check();
      await page.getByRole("button", { name: "Confirm" }).click();
      await expect(page.getByRole("heading", { name: "One more confirmation" })).toBeVisible();
      await expect(page.getByText(`the link we sent to ${maskEmail(member.email)}`)).toBeVisible();
      await check();
      await page.goto("/settings/profile");
      await expect(email.getByText("Not confirmed yet")).toHaveCount(1);
      await expect(email.getByText("Confirmed", { exact: true })).toHaveCount(1);

      // The other mailbox may be open in a browser that is not signed in.
      const elsewhere = await (await browser.newContext({ javaScriptEnabled })).newPage();
      await elsewhere.goto(await confirmationLink(member.email));
      await elsewhere.getByRole("button", { name: "Confirm" }).click();
      await expect(elsewhere.getByRole("heading", { name: "Email changed" })).toBeVisible();
      await elsewhere.getByRole("link", { name: "Continue" }).click();
      await expect(elsewhere).toHaveURL(/\/login/);

      await page.reload();
      await expect(email.getByText(newcomer.email)).toBeVisible();
      await expect(email.getByText("Not confirmed yet")).toHaveCount(0);
      for (const address of [member.email, newcomer.email])
        await expect
          .poll(async () =>
            (await mailsTo(address)).some((mail) => mail.subject === "Your Gatehouse email was changed"),
          )
          .toBe(true);
    });

    test("canceling an email change invalidates its links", async ({ page, member, newcomer }) => {
      await enter(page, member, "/settings/profile/email");
      await page.getByLabel("New email").fill(newcomer.email);
      await page.getByRole("button", { name: "Change email" }).click();
      const link = await confirmationLink(newcomer.email);
      await page.getByRole("button", { name: "Cancel email change" }).click();
      await expect(page.getByRole("status").filter({ hasText: "Email change canceled." })).toBeVisible();
      await page.goto(link);
      await expect(page.getByRole("heading", { name: "This link no longer works" })).toBeVisible();
      if (javaScriptEnabled) await expectAccessible(page);
      await page.getByRole("link", { name: "Go to email settings" }).click();
      await expect(page.locator("#email")).toContainText(member.email);
    });
  });
}
