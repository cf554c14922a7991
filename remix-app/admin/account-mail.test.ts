import { expect, test } from "vitest";
import { mailBody } from "../mail/mail-body.ts";
import { accountInvitationMail, accountRemovedMail } from "./account-mail.ts";

const site = { origin: "https://gatehouse.example", product: "Northwind", accent: "#035e63" };
const id = "0b4c7b0e-9d6b-4f2e-8a3c-2f6a5f3f4c11";

test("an invitation links only to the sign-up page, and names the product", () => {
  const mail = accountInvitationMail({ to: "ada@example.com", id }, site);
  expect(mail.subject).toBe("You’re invited to Northwind");
  expect(mailBody(mail, site).html.match(/href="[^"]*"/g)).toEqual([`href="${site.origin}/signup?invitation=${id}"`]);
});

test("the email about a deleted account has no link, and names the administrators as contact", () => {
  const mail = accountRemovedMail({ to: "ada@example.com" }, site);
  expect(mail.subject).toBe("Your Northwind account was deleted");
  expect(mailBody(mail, site).html).not.toContain("href=");
  expect(mail.text).toContain("contact an administrator of Northwind");
});
