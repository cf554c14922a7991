import { MailDev } from "maildev";
import { z } from "zod";

/** Runs a mailbox for all emails of the stack: SMTP without TLS or authentication, and a web page to read them. */

const port = z.coerce.number().int().min(1).max(65_535);
const env = z
  .object({ SMTP_PORT: port, WEB_PORT: port, MAIL_DIR: z.string(), HOST: z.string().default("127.0.0.1") })
  .parse(process.env);

const maxMails = 500;

const mail = new MailDev({
  smtp: env.SMTP_PORT,
  ip: env.HOST,
  web: env.WEB_PORT,
  webIp: env.HOST,
  // By default, MailDev uses one directory for everyone on the machine and empties it at each start.
  mailDirectory: env.MAIL_DIR,
  maxEmails: maxMails,
  hideExtensions: ["STARTTLS"],
});

for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, () => {
    void mail.stop().finally(() => process.exit(0));
  });
}

await mail.start();
console.log(`mail on smtp://${env.HOST}:${env.SMTP_PORT}, read at http://${env.HOST}:${env.WEB_PORT}`);
