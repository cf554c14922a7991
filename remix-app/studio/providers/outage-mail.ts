import { formatExactDateTime } from "../../http/date-text.ts";
import { quoteText } from "../../mail/inert-text.ts";
import type { Mail, MailSite } from "../../mail/mail-body.ts";
import { type MailParts, mailText } from "../../mail/mail-text.ts";
import { formatCount } from "../../ui/format-amount.ts";
import { attemptResult } from "../runs/run-facts.ts";
import type { RunAttempt } from "../runs/run-schema.ts";
import { describeCallers, type FailedCallers } from "./failed-callers.ts";

interface OutageFacts {
  id: string;
  /** The provider's id, which an operator chose from lower-case letters, digits and underscores. */
  provider: string;
  /** RFC 3339. */
  beganAt: string;
  failure: RunAttempt["failure"];
  /** The HTTP status of the last failure. Null without an answer. */
  status: number | null;
  /** At most 20 routes that fail, with the provider's name of the model. */
  routes: readonly { model: string; endpoint: string }[];
}

/** An outage of a provider whose email is due, as returned by `ai.sweep_outage_mails`. */
export type OutageAlert =
  | (OutageFacts & { kind: "began"; callers: FailedCallers })
  | (OutageFacts & { kind: "ended"; endedAt: string; ending: keyof typeof endings });

const endings = {
  answered: {
    subject: (provider: string) => `${provider} works again`,
    news: (provider: string) => `${provider} answers requests again.`,
  },
  quiet: {
    subject: (provider: string) => `${provider} is no longer failing`,
    news: (provider: string) => `No request to ${provider} has failed lately. None has been answered since, either.`,
  },
  disabled: {
    subject: (provider: string) => `${provider} is no longer failing`,
    news: (provider: string) => `The routes of ${provider} that failed are disabled.`,
  },
} as const;

const maxRoutes = 5;

/** Returns the email to people of the console about an outage that began or ended. */
export function outageMail(alert: OutageAlert, { origin, product }: Pick<MailSite, "origin" | "product">) {
  const { provider, beganAt, routes } = alert;
  const shared = {
    action: { label: "Open the console", url: `${origin}/admin` },
    footer: [
      `You’re getting this email because you have a role in the console of ${product}. To stop these emails, use the button on its overview.`,
    ],
  };
  const failed = ["Last failure", attemptResult(alert)] as const;
  if (alert.kind === "ended") {
    const { subject, news } = endings[alert.ending];
    const parts: MailParts = {
      news: [news(provider)],
      facts: [
        ["From", formatExactDateTime(beganAt)],
        ["To", formatExactDateTime(alert.endedAt)],
        ["Duration", durationText(Date.parse(alert.endedAt) - Date.parse(beganAt))],
        failed,
      ],
      ...shared,
    };
    return { subject: subject(provider), text: mailText(parts) } satisfies Omit<Mail, "to">;
  }
  const parts: MailParts = {
    news: [`Requests to ${provider} are failing.`],
    facts: [
      ["Since", formatExactDateTime(beganAt)],
      failed,
      ["Routes", routesText(routes)],
      ["Callers", describeCallers(alert.callers)],
    ],
    more: [
      "While a route fails, the gateway tries the model’s next route. You’ll get another email when the outage has ended.",
    ],
    ...shared,
  };
  return { subject: `${provider} is failing`, text: mailText(parts) } satisfies Omit<Mail, "to">;
}

function routesText(routes: OutageFacts["routes"]): string {
  const names = routes.slice(0, maxRoutes).map(({ model, endpoint }) => `${quoteText(model)} (${endpoint})`);
  const others = routes.length - names.length;
  return [...names, ...(others > 0 ? [`and ${formatCount(others)} more`] : [])].join(", ");
}

/** Formats a duration with its two largest units: "45 s", "12 min 30 s", "3 h 5 min", "2 d 4 h". */
function durationText(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1_000));
  const units = [
    ["d", Math.floor(seconds / 86_400)],
    ["h", Math.floor(seconds / 3_600) % 24],
    ["min", Math.floor(seconds / 60) % 60],
    ["s", seconds % 60],
  ] as const;
  const first = units.findIndex(([, count]) => count > 0);
  if (first === -1) return "0 s";
  const shown = units.slice(first, first + 2).filter(([, count]) => count > 0);
  return shown.map(([unit, count]) => `${count} ${unit}`).join(" ");
}
