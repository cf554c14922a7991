import { createTransport } from "nodemailer";
import { type Finding, fail, ok } from "./finding.ts";

const connectLimitMs = 10_000;

/** Checks that the mail server accepts our connection and credentials. Sends nothing. */
export async function checkMail(smtpUrl: string): Promise<Finding[]> {
  const transport = createTransport({
    url: smtpUrl,
    connectionTimeout: connectLimitMs,
    greetingTimeout: connectLimitMs,
  });
  try {
    await transport.verify();
    return [ok("mail", "the mail server takes us")];
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? "no answer";
    return [fail("mail", `SMTP_URL does not work (${code}): check its host, port, user and password.`)];
  } finally {
    transport.close();
  }
}
