/** Emails that this server sends. */
const mailKinds = ["invite", "confirmation", "recovery", "email_change", "magic_link", "reauthentication"] as const;
export type MailKind = (typeof mailKinds)[number];

export type MailText = {
  /** Template of the subject line. */
  subject: string;
  /** URL of the body's template, relative to the site's URL. If empty, the built-in body is used. */
  bodyUrl: string;
  /** Path of the link in `{{ .ConfirmationURL }}`. It replaces the path of API_EXTERNAL_URL. */
  linkPath: string;
};

const subjects: Record<MailKind, string> = {
  invite: "You have been invited",
  confirmation: "Confirm your email address",
  recovery: "Reset your password",
  email_change: "Confirm your new email address",
  magic_link: "Your sign-in link",
  reauthentication: "{{ .Token }} is your confirmation code",
};

/** Reads `GOTRUE_MAILER_{SUBJECTS,TEMPLATES,URLPATHS}_<KIND>`. */
export function readMailTexts(env: NodeJS.ProcessEnv): Record<MailKind, MailText> {
  const entries = mailKinds.map((kind): [MailKind, MailText] => {
    const value = (group: string, name: string = kind) => env[`GOTRUE_MAILER_${group}_${name.toUpperCase()}`] ?? "";
    // A magic link is a recovery under another name, so it uses recovery's path.
    const pathKind = kind === "magic_link" ? "recovery" : kind;
    return [
      kind,
      {
        subject: value("SUBJECTS") || subjects[kind],
        bodyUrl: value("TEMPLATES"),
        linkPath: value("URLPATHS", pathKind) || "/verify",
      },
    ];
  });
  return Object.fromEntries(entries) as Record<MailKind, MailText>;
}
