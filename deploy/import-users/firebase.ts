import { z } from "zod";
import { createSourceUser, maxScrypt, omissions, optionalText, parseRecord, type SourceUser } from "./source-user.ts";

/** Base64, which the Admin SDK writes in the alphabet for URLs and without padding, in the standard form. */
const base64 = z.string().transform((text) => {
  const standard = text.replaceAll("-", "+").replaceAll("_", "/").replace(/=+$/, "");
  return standard.padEnd(Math.ceil(standard.length / 4) * 4, "=");
});

/**
 * A user of `firebase auth:export` (firebase.google.com/docs/cli/auth, src/accountExporter.ts in
 * github.com/firebase/firebase-tools). The command leaves out second factors, and providers other than Google,
 * Facebook, Twitter and GitHub.
 */
const exportedUser = z.looseObject({
  localId: z.string().min(1),
  email: optionalText,
  emailVerified: z.boolean().nullish(),
  passwordHash: base64.nullish(),
  salt: base64.nullish(),
  displayName: optionalText,
  photoUrl: optionalText,
  phoneNumber: optionalText,
  disabled: z.boolean().nullish(),
  customAttributes: optionalText,
  providerUserInfo: z.array(z.unknown()).nullish(),
  mfaInfo: z.array(z.unknown()).nullish(),
});

/** The columns of Firebase's CSV, which has no header. */
const column = { localId: 0, email: 1, emailVerified: 2, passwordHash: 3, salt: 4, displayName: 5, photoUrl: 6 };
const providerColumns = [7, 11, 15, 19];
const lateColumn = { phoneNumber: 25, disabled: 26, customAttributes: 27 };

export type FirebaseHashParameters = { signerKey: string; saltSeparator: string; rounds: number; memoryCost: number };

const hashParameters = z
  .looseObject({
    algorithm: z.literal("SCRYPT", "algorithm must be SCRYPT"),
    base64_signer_key: base64.refine((text) => text !== "", "base64_signer_key is empty"),
    base64_salt_separator: base64,
    rounds: z.coerce.number().int().min(1).max(maxScrypt.rounds),
    mem_cost: z.coerce.number().int().min(1).max(maxScrypt.memoryCost),
  })
  .transform((config) => ({
    signerKey: config.base64_signer_key,
    saltSeparator: config.base64_salt_separator,
    rounds: config.rounds,
    memoryCost: config.mem_cost,
  }));

/**
 * Reads the password hash parameters, in the form in which the Firebase console shows them.
 * @throws Error that names the fields, never their values
 */
export function readHashParameters(text: string): FirebaseHashParameters {
  const fields = text.matchAll(/(\w+)["']?\s*[:=]\s*["']?([\w+/=-]*)/g);
  const parsed = hashParameters.safeParse(Object.fromEntries([...fields].map(([, name, value]) => [name, value])));
  if (parsed.success) return parsed.data;
  const names = parsed.error.issues.map(({ path }) => path.join("."));
  throw new Error(`the hash parameters lack a usable ${names.join(", ")}: copy them from the Firebase console`);
}

/** Reads a user of Firebase's JSON. @throws UnusableRecord */
export function readFirebaseUser(record: unknown, parameters: FirebaseHashParameters): SourceUser {
  const user = parseRecord(exportedUser, record);
  return createSourceUser({
    sourceId: user.localId,
    email: user.email,
    emailVerified: user.emailVerified === true,
    hash: user.passwordHash ? formatHash(user.passwordHash, { salt: user.salt ?? "", parameters }) : undefined,
    name: user.displayName,
    picture: user.photoUrl,
    disabled: user.disabled === true,
    omitted: omissions({
      identities: (user.providerUserInfo ?? []).length > 0,
      metadata: !["", "{}"].includes(user.customAttributes ?? ""),
      mfa: (user.mfaInfo ?? []).length > 0,
      phone: user.phoneNumber !== undefined,
    }),
  });
}

/** Reads a row of Firebase's CSV. @throws UnusableRecord */
export function readFirebaseRow(row: readonly string[], parameters: FirebaseHashParameters): SourceUser {
  const cells = Object.entries({ ...column, ...lateColumn }).map(([name, index]) => [name, row[index]]);
  const record: Record<string, unknown> = Object.fromEntries(cells);
  const providerUserInfo = providerColumns.filter((index) => row[index]);
  const flags = { emailVerified: toFlag(row[column.emailVerified]), disabled: toFlag(row[lateColumn.disabled]) };
  return readFirebaseUser({ ...record, providerUserInfo, ...flags }, parameters);
}

/** Returns the flag, or the text itself if it is neither, so that the record is refused. */
function toFlag(text: string | undefined): unknown {
  if (text === "true") return true;
  return text === "false" || text === "" || text === undefined ? false : text;
}

function formatHash(hash: string, { salt, parameters }: { salt: string; parameters: FirebaseHashParameters }): string {
  const { signerKey, saltSeparator, rounds, memoryCost } = parameters;
  const separator = saltSeparator === "" ? "" : `,ss=${saltSeparator}`;
  return `$fbscrypt$v=1,n=${memoryCost},r=${rounds},p=1${separator},sk=${signerKey}$${salt}$${hash}`;
}
