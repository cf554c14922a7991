import { z } from "zod";
import { readStack } from "../scripts/test/stack.ts";

const mails = z.array(
  z.looseObject({
    subject: z.string().optional(),
    html: z.string().optional(),
    text: z.string().optional(),
    to: z.array(z.looseObject({ address: z.string() })),
  }),
);

const waitMs = 10_000;
const pauseMs = 150;

/**
 * Waits for an email to `address` in the local mailbox.
 * @param after how many emails to that address to skip
 * @returns the link in the newest email
 */
export async function confirmationLink(address: string, { after = 0 } = {}): Promise<string> {
  const deadline = Date.now() + waitMs;
  while (Date.now() < deadline) {
    const mine = await mailsTo(address);
    const newest = mine.at(-1);
    if (newest && mine.length > after) {
      const link = /https?:\/\/[^\s"'<>]+\/auth\/confirm\?[^\s"'<>]+/.exec(newest.html ?? newest.text ?? "")?.[0];
      if (!link) throw new Error(`The mail to ${address} holds no link to /auth/confirm.`);
      return link.replaceAll("&amp;", "&");
    }
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
  throw new Error(`No mail to ${address} within ${waitMs / 1000} s.`);
}

/** Waits for the newest email to `address` with that subject. @returns its first link */
export async function linkOfMail(address: string, subject: string): Promise<string> {
  const deadline = Date.now() + waitMs;
  while (Date.now() < deadline) {
    const mail = (await mailsTo(address)).findLast((candidate) => candidate.subject === subject);
    const link = mail && /https?:\/\/[^\s"'<>]+/.exec(mail.text ?? "")?.[0];
    if (link) return link;
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
  throw new Error(`No mail “${subject}” to ${address} within ${waitMs / 1000} s.`);
}

/** Returns the emails to an address, oldest first. */
export async function mailsTo(address: string) {
  const response = await fetch(new URL(`/api/email?to.address=${encodeURIComponent(address)}`, readStack().mail.web));
  const all = mails.parse(await response.json());
  return all.filter((mail) => mail.to.some((to) => to.address === address));
}
