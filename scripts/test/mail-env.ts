import { parseEnv } from "../../remix-app/env.server.ts";
import { readStack } from "./stack.ts";

const { base, supabase, mail } = readStack();

/** The environment of a program that sends mails by the tests' stack. */
export const mailEnv = parseEnv({
  NODE_ENV: "test",
  BASE_URL: base,
  SUPABASE_URL: supabase.url,
  SUPABASE_PUBLISHABLE_KEY: supabase.publishableKey,
  SUPABASE_SECRET_KEY: supabase.secretKey,
  SMTP_URL: mail.smtp,
  MAIL_FROM: "Gatehouse <no-reply@gatehouse.test>",
});

/** The same where nobody listens: on the port of discarding. */
export const mailEnvDown = { ...mailEnv, SMTP_URL: "smtp://127.0.0.1:9" };
