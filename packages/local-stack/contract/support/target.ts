import { z } from "zod";

const environment = z.object({
  IDENTITY_URL: z.url(),
  IDENTITY_SERVICE_KEY: z.string().min(1),
  IDENTITY_JWT_SECRET: z.string().min(1),
  IDENTITY_DB_URL: z.string().min(1),
  IDENTITY_MAIL_URL: z.url(),
  IDENTITY_PROVIDER_URL: z.url(),
});

/** The server under test, regardless of its implementation. */
export type Target = {
  url: string;
  /** A token with the role service_role. */
  serviceKey: string;
  /** The secret of the HS256 tokens that the server accepts. */
  jwtSecret: string;
  /**
   * The URL of the server's database, for a role that may read and write the schema auth. Tests inspect and backdate
   * rows with it.
   */
  dbUrl: string;
  /** The URL of the MailDev that receives the server's emails. */
  mailUrl: string;
  /** The URL of the server with the identity providers that the server under test trusts (`oauth-provider.ts`). */
  providerUrl: string;
};

/** @throws Error naming each missing variable */
function readTarget(): Target {
  const parsed = environment.safeParse(process.env);
  if (!parsed.success) {
    throw new Error(`Unset IDENTITY_URL, or set all of these too: ${z.prettifyError(parsed.error)}`);
  }
  return {
    url: parsed.data.IDENTITY_URL.replace(/\/$/, ""),
    serviceKey: parsed.data.IDENTITY_SERVICE_KEY,
    jwtSecret: parsed.data.IDENTITY_JWT_SECRET,
    dbUrl: parsed.data.IDENTITY_DB_URL,
    mailUrl: parsed.data.IDENTITY_MAIL_URL,
    providerUrl: parsed.data.IDENTITY_PROVIDER_URL,
  };
}

export const target = readTarget();
