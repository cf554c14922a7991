import { z } from "zod";
import { notificationMails, notificationSetting } from "../../start/identity-environment.ts";
import { type AuthConfig, notShown } from "./auth-config.ts";
import { type Finding, fail, ok, unseen } from "./finding.ts";

const about = "notifications";
const dashboard = "Dashboard, Authentication, Emails, Security";
const look = `Look at ${dashboard}: all seven must be off.`;
const twice = "owners get two mails about one change. Turn them off";

/** A project's settings at the Management API. Null means that the setting is unset and the email is off. */
const projectSettings = z.object(
  Object.fromEntries(notificationMails.map((name) => [settingName(name), z.boolean().nullable()])),
);

/** Checks that the identity backend sends no notification emails of its own. */
export function checkNotifications(config: AuthConfig): Finding {
  if (config.from === "local") return ok(about, "off: a local stack starts its backend without them");
  if (config.from === "environment") return checkOwnBackend(config.values);
  if (config.from === "nowhere") return unseen(about, `${config.why}. ${look}`);
  const found = projectSettings.safeParse(config.values);
  if (!found.success) return unseen(about, `${notShown(config.project).why}. ${look}`);
  const on = notificationMails.filter((name) => found.data[settingName(name)] === true);
  if (on.length > 0) return fail(about, `the backend mails ${on.join(", ")}: ${twice} (${dashboard}).`);
  return ok(about, "off at the backend");
}

function settingName(name: (typeof notificationMails)[number]): string {
  return `mailer_notifications_${name}_enabled`;
}

/** Checks a self-hosted backend's settings, if the doctor was given them. Notifications are off by default. */
function checkOwnBackend(settings: Record<string, string | undefined>): Finding {
  const names = notificationMails.map(notificationSetting);
  const on = names.filter((name) => /^(1|t|true)$/i.test(settings[name] ?? ""));
  if (on.length > 0) return fail(about, `${on.join(", ")}: ${twice}.`);
  // Supabase Auth requires this setting. If it is present, the doctor was given the backend's settings.
  if (settings.GOTRUE_JWT_SECRET) return ok(about, "off in the backend's settings");
  return unseen(
    about,
    "not shown by the backend. Self-hosted: name its settings too (--env), where no " +
      "GOTRUE_MAILER_NOTIFICATIONS_*_ENABLED may be on. Hosted with a custom domain: set SUPABASE_PROJECT_ID and " +
      "SUPABASE_ACCESS_TOKEN.",
  );
}
