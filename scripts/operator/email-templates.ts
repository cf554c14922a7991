import { readFileSync, writeFileSync } from "node:fs";
import { z } from "zod";
import { brandAccent, brandName, defaultAccent, defaultName, supportAddress } from "../../remix-app/config/brand.ts";
import { checkSettings } from "../../remix-app/config/env.server.ts";
import { helpWhereAsked } from "../help.ts";
import { supabaseFiles } from "./email-templates/supabase-files.ts";

/** `npm run gatehouse -- email-templates`: writes the identity backend's emails with the configured brand. */
helpWhereAsked(`npm run gatehouse -- email-templates

Writes supabase/templates/*.html, and the subjects and names in supabase/config.toml, with BRAND_NAME, BRAND_ACCENT
and SUPPORT_ADDRESS from the environment or .env. On hosted Supabase, setup sends them to the project.`);

try {
  const settings = z.object({
    BRAND_NAME: brandName.default(defaultName),
    BRAND_ACCENT: brandAccent.default(defaultAccent),
    SUPPORT_ADDRESS: supportAddress.nullable().default(null),
  });
  const { BRAND_NAME: name, BRAND_ACCENT: accent, SUPPORT_ADDRESS: support } = checkSettings(settings, process.env);
  for (const [file, text] of supabaseFiles({ name, accent, support }, readFileSync("supabase/config.toml", "utf8"))) {
    writeFileSync(file, text);
    console.log(`wrote ${file}`);
  }
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
