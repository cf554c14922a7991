import { z } from "zod";
import { isLoopback } from "#shared/loopback.ts";
import { notificationMails, notificationSetting } from "../local-stack/identity-environment.ts";
import type { Configuration } from "./configuration.ts";
import { type Finding, fail, ok, unseen } from "./finding.ts";

const about = "notifications";
const requestLimitMs = 10_000;
const dashboard = "Dashboard, Authentication, Emails, Security";
const look = `Look at ${dashboard}: all seven must be off.`;
const twice = "owners get two mails about one change. Turn them off";

/** A project's settings at the Management API. Null means unset, which is off. */
const projectSettings = z.object(
  Object.fromEntries(notificationMails.map((name) => [settingName(name), z.boolean().nullable()])),
);

/**
 * Checks that the identity backend sends no notification mails of its own, as far as that can be seen: at Supabase's
 * Management API with SUPABASE_ACCESS_TOKEN, or in the settings of a backend that somebody runs themselves.
 */
export async function checkNotifications(
  { settings, local }: Pick<Configuration, "settings" | "local">,
  managementApi = "https://api.supabase.com",
): Promise<Finding> {
  const { hostname } = new URL(settings.SUPABASE_URL ?? "");
  const onThisMachine = isLoopback(hostname);
  if (local && onThisMachine) return ok(about, "off: a local stack starts its backend without them");
  const project = onThisMachine ? undefined : projectOf(hostname) || settings.SUPABASE_PROJECT_ID;
  if (!project) return checkOwnBackend(settings);
  const { SUPABASE_ACCESS_TOKEN: token } = settings;
  if (!token) return unseen(about, `not shown without SUPABASE_ACCESS_TOKEN (docs/operating.md). ${look}`);
  const url = `${managementApi}/v1/projects/${encodeURIComponent(project)}/config/auth`;
  const answer = await fetch(url, {
    headers: { authorization: `Bearer ${token}` },
    signal: AbortSignal.timeout(requestLimitMs),
  }).catch(() => null);
  if (!answer) return unseen(about, `${new URL(url).host} does not answer. ${look}`);
  if (!answer.ok) {
    const says =
      answer.status === 401 || answer.status === 403 ? "refuses SUPABASE_ACCESS_TOKEN" : "does not show them";
    return unseen(about, `the Management API ${says} (${answer.status}) for project ${project}. ${look}`);
  }
  const found = projectSettings.safeParse(await answer.json().catch(() => undefined));
  if (!found.success) return unseen(about, `the Management API does not show them for project ${project}. ${look}`);
  const on = notificationMails.filter((name) => found.data[settingName(name)] === true);
  if (on.length > 0) return fail(about, `the backend mails ${on.join(", ")}: ${twice} (${dashboard}).`);
  return ok(about, "off at the backend");
}

function settingName(name: (typeof notificationMails)[number]): string {
  return `mailer_notifications_${name}_enabled`;
}

/** Returns the project that a hosted address names. A custom domain names none. */
function projectOf(hostname: string): string | undefined {
  return /^([a-z0-9]+)\.supabase\.co$/.exec(hostname)?.[1];
}

/** Judges a self-hosted backend by its own settings, where they were given to the doctor. They are off by default. */
function checkOwnBackend(settings: Configuration["settings"]): Finding {
  const names = notificationMails.map(notificationSetting);
  const on = names.filter((name) => /^(1|t|true)$/i.test(settings[name] ?? ""));
  if (on.length > 0) return fail(about, `${on.join(", ")}: ${twice}.`);
  // Supabase Auth does not start without this one.
  if (settings.GOTRUE_JWT_SECRET) return ok(about, "off in the backend's settings");
  return unseen(
    about,
    "not shown by the backend. Self-hosted: name its settings too (--env), where no " +
      "GOTRUE_MAILER_NOTIFICATIONS_*_ENABLED may be on. Hosted with a custom domain: set SUPABASE_PROJECT_ID and " +
      "SUPABASE_ACCESS_TOKEN.",
  );
}
