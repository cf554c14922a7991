import { type BackendEmail, backendEmails, type EmailBrand } from "./backend-emails.ts";

/** File contents by path below the project's root. */
export type Files = ReadonlyMap<string, string>;

/**
 * Renders the files of the Supabase project that show the brand: the email templates and config.toml. config.toml has
 * the emails' subjects, the sender's name and the name shown in passkey prompts.
 * @param config the text of supabase/config.toml
 */
export function supabaseFiles(brand: EmailBrand, config: string): Files {
  const emails = Object.values(backendEmails(brand));
  const named = config
    .replace(/^sender_name = .*$/m, `sender_name = ${quoted(brand.name)}`)
    .replace(/^rp_display_name = .*$/m, `rp_display_name = ${quoted(brand.name)}`);
  return new Map([
    ...emails.map(({ file, html }): [string, string] => [`supabase/templates/${file}.html`, html]),
    ["supabase/config.toml", emails.reduce(withSubject, named)],
  ]);
}

function withSubject(config: string, { file, subject }: BackendEmail): string {
  const section = new RegExp(`^(\\[auth\\.email\\.template\\.${file}\\]\\nsubject = ).*$`, "m");
  return config.replace(section, (_, head: string) => head + quoted(subject));
}

/** Writes a TOML basic string. Names and subjects contain neither quotation marks nor control characters. */
function quoted(text: string): string {
  return `"${text}"`;
}
