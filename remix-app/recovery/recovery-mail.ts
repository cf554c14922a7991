import type { Mail } from "../mail/mail-body.ts";
import { credentialMinutes } from "./credential.ts";

/** The one mail with a link and a code. Which of the two is used first ends both. */
export function recoveryMail({
  to,
  origin,
  token,
  code,
}: {
  to: string;
  origin: string;
  token: string;
  code: string;
}): Mail {
  return {
    to,
    subject: "Get back into your account",
    text: [
      "An administrator helps you get back into your account. Open this link and confirm:",
      `${origin}/auth/recovery?${new URLSearchParams({ token })}`,
      `Or enter this code at ${origin}/auth/recovery with your email: ${code}`,
      `Link and code work once, for ${credentialMinutes} minutes. Nobody from us will ever ask you for them.`,
      "If you did not ask for help, do nothing: without them nobody gets in.",
    ].join("\n\n"),
  };
}
