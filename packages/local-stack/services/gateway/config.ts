import { z } from "zod";

const origin = z.url().transform((url) => url.replace(/\/+$/, ""));
const environment = z.object({
  PORT: z.coerce.number().int().min(0).max(65_535),
  HOST: z.string().default("127.0.0.1"),
  IDENTITY_URL: origin,
  FUNCTIONS_URL: origin,
  DATA_API_DB_URL: z.string().min(1),
  DATA_API_SCHEMAS: z
    .string()
    .default("public")
    .transform((list) =>
      list
        .split(",")
        .map((name) => name.trim())
        .filter(Boolean),
    ),
  SUPABASE_PUBLISHABLE_KEY: z.string().startsWith("sb_publishable_"),
  SUPABASE_SECRET_KEY: z.string().startsWith("sb_secret_"),
  ANON_JWT: z.string().min(1),
  SERVICE_ROLE_JWT: z.string().min(1),
  JWT_ISSUER: z.url().optional(),
});

export type GatewayConfig = {
  port: number;
  host: string;
  identityUrl: string;
  functionsUrl: string;
  databaseUrl: string;
  schemas: string[];
  keys: { publishable: string; secret: string };
  /** HS256 tokens that replace the opaque keys at the identity backend. */
  roleTokens: { publishable: string; secret: string };
  /** The `iss` that user tokens must carry. */
  issuer: string;
};

/**
 * Parses the gateway's environment.
 * @throws Error naming every variable that is missing or malformed
 */
export function readConfig(env: NodeJS.ProcessEnv): GatewayConfig {
  const parsed = environment.safeParse(env);
  if (!parsed.success) throw new Error(`The gateway's environment is incomplete:\n${z.prettifyError(parsed.error)}`);
  const { data } = parsed;
  return {
    port: data.PORT,
    host: data.HOST,
    identityUrl: data.IDENTITY_URL,
    functionsUrl: data.FUNCTIONS_URL,
    databaseUrl: data.DATA_API_DB_URL,
    schemas: data.DATA_API_SCHEMAS,
    keys: { publishable: data.SUPABASE_PUBLISHABLE_KEY, secret: data.SUPABASE_SECRET_KEY },
    roleTokens: { publishable: data.ANON_JWT, secret: data.SERVICE_ROLE_JWT },
    issuer: data.JWT_ISSUER ?? `http://127.0.0.1:${data.PORT}/auth/v1`,
  };
}
