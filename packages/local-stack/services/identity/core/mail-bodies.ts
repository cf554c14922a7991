import type { MailKind } from "../config/mail-texts.ts";

/**
 * Returns a link into the web app, which asks for a click before it redeems the token, since email scanners open links.
 */
function confirmLink(type: string): string {
  return `{{ .SiteURL }}/auth/confirm?token_hash={{ .TokenHash }}&amp;type=${type}{{ if .Elsewhere }}&amp;next={{ .Elsewhere }}{{ end }}`;
}

function body({ title, text, type, action, after }: Record<"title" | "text" | "type" | "action" | "after", string>) {
  return `<h2>${title}</h2>
<p>${text}</p>
<p><a href="${confirmLink(type)}">${action}</a></p>
<p>Or enter this code: <strong>{{ .Token }}</strong></p>
<p>${after}</p>
`;
}

const notYou = "If this was not you, you can ignore this mail.";

/** Email bodies used when no template is configured. */
export const builtInBodies: Record<MailKind, string> = {
  confirmation: body({
    title: "Confirm your email address",
    text: "One click, and your account for {{ .Email }} is ready.",
    type: "signup",
    action: "Confirm email address",
    after: notYou,
  }),
  recovery: body({
    title: "Reset your password",
    text: "Someone, most likely you, asked for a new password for {{ .Email }}.",
    type: "recovery",
    action: "Choose a new password",
    after: notYou,
  }),
  magic_link: body({
    title: "Your sign-in link",
    text: "Sign in as {{ .Email }} with one click. The link works once.",
    type: "magiclink",
    action: "Sign in",
    after: notYou,
  }),
  invite: body({
    title: "You have been invited",
    text: "An account for {{ .Email }} is waiting for you.",
    type: "invite",
    action: "Accept the invitation",
    after: "If you did not expect this, you can ignore this mail.",
  }),
  email_change: body({
    title: "Confirm your new email address",
    text: "The address of the account {{ .Email }} is to become {{ .NewEmail }}.",
    type: "email_change",
    action: "Confirm the change",
    after: "If this was not you, do not confirm it, and change your password.",
  }),
  reauthentication: `<h2>Confirm that it is you</h2>
<p>Enter this code: <strong>{{ .Token }}</strong></p>
<p>If you did not ask for it, change your password: someone may know it.</p>
`,
};
