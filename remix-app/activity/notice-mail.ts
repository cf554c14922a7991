import { quoted } from "../mail/inert-text.ts";
import type { Mail } from "../mail/mail-body.ts";
import { methodLabel } from "./method-label.ts";

/** Where something happened, as the owner can recognise it. */
interface Place {
  to: string;
  when: Date;
  device: string;
  address: string;
  /** Our web origin, for links. */
  origin: string;
}

/** The mail about a change that matters: what, when, from where, and what to do. */
export function noticeMail(notice: Place & { subject: string; what: string; details: Record<string, string> }): Mail {
  const { to, subject, what, details } = notice;
  const facts = Object.entries(details).map(
    ([name, value]) => `${name[0]?.toUpperCase()}${name.slice(1)}: ${quoted(value)}`,
  );
  return { to, subject, text: [what, [...facts, ...placeLines(notice)].join("\n"), ...whatToDo(notice)].join("\n\n") };
}

/** The mail about what an administrator did to an account. */
export function officeNoticeMail({
  to,
  subject,
  what,
  when,
  origin,
}: Pick<Place, "to" | "when" | "origin"> & { subject: string; what: string }): Mail {
  const help = `If you did not ask for help, tell the administrators of this service, and see what changed: ${origin}/settings/security`;
  return { to, subject, text: [what, `When: ${timeOf(when)}`, help].join("\n\n") };
}

/** The mail about a sign-in by a device or from an address that was not there before. */
export function newSignInMail(notice: Place & { method: string }): Mail {
  const what = "Somebody signed in to your account from a device or a place that we had not seen with it before.";
  const facts = [`Method: ${methodLabel(notice.method)}`, ...placeLines(notice)];
  return {
    to: notice.to,
    subject: "New sign-in to your account",
    text: [what, facts.join("\n"), ...whatToDo(notice)].join("\n\n"),
  };
}

/** The last mail of an account: its log is gone, so this is what says when. */
export function accountDeletedMail({ to, when }: Pick<Place, "to" | "when">): Mail {
  const what = `Your account was deleted on ${timeOf(when)}, with everything that hung on it.`;
  return { to, subject: "Your account was deleted", text: `${what}\n\nNobody can sign in to it any more.` };
}

function timeOf(when: Date): string {
  return `${when.toLocaleString("en-GB", { dateStyle: "long", timeStyle: "short", timeZone: "UTC" })} UTC`;
}

function placeLines({ when, device, address }: Place): string[] {
  return [`When: ${timeOf(when)}`, `Device: ${quoted(device)}`, `Address: ${quoted(address)}`];
}

function whatToDo({ origin }: Place): string[] {
  return [
    "If this was you, there is nothing to do.",
    `If it was not, somebody else may be in your account. Choose a new password, which signs out every device: ${origin}/forgot-password`,
    `Then see what else changed: ${origin}/settings/security`,
  ];
}
