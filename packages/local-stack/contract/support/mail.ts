import { z } from "zod";
import { target } from "./target.ts";

const mailShape = z.array(z.looseObject({ subject: z.string(), html: z.string().optional() }));

export type Mail = { subject: string; html: string; code: string; tokenHash: string };

/** Returns all emails to an address, oldest first. */
export async function mailsTo(email: string): Promise<Mail[]> {
  const response = await fetch(`${target.mailUrl}/api/email?to.address=${encodeURIComponent(email)}`);
  return mailShape.parse(await response.json()).map(({ subject, html }) => {
    const [code = "", tokenHash = ""] = subject.split(" ");
    return { subject, html: html ?? "", code, tokenHash };
  });
}

/**
 * Waits for the next email to an address that has already received `count` emails. Reads codes and hashes from its
 * subject.
 */
export async function nextMail(email: string, count = 0): Promise<Mail> {
  for (let attempt = 0; attempt < 100; attempt++) {
    const mail = (await mailsTo(email))[count];
    if (mail) return mail;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`Email number ${count + 1} to ${email} did not arrive`);
}
