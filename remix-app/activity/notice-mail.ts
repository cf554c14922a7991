import { quoted } from "../mail/inert-text.ts";
import type { Mail } from "../mail/mail-body.ts";
import { eventKind, eventLabel } from "./event-kinds.ts";
import { methodLabel } from "./method-label.ts";

/** An event as the mail about it needs it. */
export interface ToldEvent {
  kind: string;
  method: string | null;
  device: string;
  address: string;
  details: Record<string, string>;
  when: Date;
  /** Added without our pages, and not kept by the owner yet. */
  unconfirmed: boolean;
}

/**
 * The mail that tells an account's owner about an event: what, when, from where, and what to do.
 * @param options.origin our web origin, for links
 */
export function eventMail(event: ToldEvent, { to, origin }: { to: string; origin: string }): Mail {
  const { kind, device, address, details } = event;
  const { notice, byAdmin } = eventKind(kind) ?? {};
  const when = `When: ${timeOf(event.when)}`;
  if (byAdmin && notice) {
    const help = `If you did not ask for help, tell the administrators of this service, and see what changed: ${origin}/settings/security`;
    return { to, subject: notice.subject, text: [notice.what, when, help].join("\n\n") };
  }
  const subject = notice?.subject ?? (kind === "sign_in" ? "New sign-in to your account" : "Your account was changed");
  const what = notice?.what ?? (kind === "sign_in" ? newPlace : `${eventLabel(kind)}.`);
  const facts = [
    ...(kind === "sign_in" ? [`Method: ${methodLabel(event.method ?? "")}`] : []),
    ...Object.entries(details).map(([name, value]) => `${name[0]?.toUpperCase()}${name.slice(1)}: ${quoted(value)}`),
    when,
    `Device: ${quoted(device)}`,
    `Address: ${quoted(address)}`,
  ];
  const unconfirmed = event.unconfirmed ? [`${unconfirmedAddition} ${origin}/settings/security`] : [];
  return { to, subject, text: [what, facts.join("\n"), ...unconfirmed, ...whatToDo(origin)].join("\n\n") };
}

const newPlace = "Someone signed in to your account from a new device or location.";
const unconfirmedAddition = "It was added by an app and is unconfirmed. Keep or remove it here:";

/** The last mail of an account: its log is gone, so this is what says when. */
export function accountDeletedMail({ to, when }: { to: string; when: Date }): Mail {
  const what = `Your account was deleted on ${timeOf(when)}, with everything in it.`;
  return { to, subject: "Your account was deleted", text: `${what}\n\nNo one can sign in to it anymore.` };
}

function timeOf(when: Date): string {
  return `${when.toLocaleString("en-GB", { dateStyle: "long", timeStyle: "short", timeZone: "UTC" })} UTC`;
}

function whatToDo(origin: string): string[] {
  return [
    "If this was you, you don't need to do anything.",
    `If it was not, someone else may have access to your account. Choose a new password, which signs out every device: ${origin}/forgot-password`,
    `Then see what else changed: ${origin}/settings/security`,
  ];
}
