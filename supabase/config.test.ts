import { execFile } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { defaultAccent, defaultName } from "../remix-app/config/brand.ts";
import { newPasswordSchema } from "../remix-app/session/credentials.ts";
import { supabaseFiles } from "../scripts/operator/email-templates/supabase-files.ts";
import { notificationMails } from "../scripts/start/identity-environment.ts";

const root = path.resolve(import.meta.dirname, "..");
const config = readFileSync(path.join(root, "supabase/config.toml"), "utf8");
const timeLimitMs = 60_000;

/** Runs `supabase start` in a copy, without access to Docker, the network or the developer's home directory. */
function supabaseStart(configText: string): Promise<string> {
  const workdir = mkdtempSync(path.join(tmpdir(), "gatehouse-config-"));
  mkdirSync(path.join(workdir, "supabase"));
  for (const part of ["functions", "templates", "migrations"])
    cpSync(path.join(root, "supabase", part), path.join(workdir, "supabase", part), { recursive: true });
  writeFileSync(path.join(workdir, "supabase/config.toml"), configText);
  const nowhere = "http://127.0.0.1:9";
  return new Promise((resolve) => {
    execFile(
      path.join(root, "node_modules/.bin/supabase"),
      ["start", "--workdir", workdir],
      {
        timeout: timeLimitMs,
        env: {
          NODE_ENV: process.env.NODE_ENV,
          PATH: process.env.PATH,
          HOME: workdir,
          DOCKER_HOST: `unix://${workdir}/no-docker.sock`,
          HTTP_PROXY: nowhere,
          HTTPS_PROXY: nowhere,
          DO_NOT_TRACK: "1",
          SUPABASE_TELEMETRY_DISABLED: "1",
        },
      },
      (_, stdout, stderr) => {
        rmSync(workdir, { recursive: true, force: true });
        resolve(stdout + stderr);
      },
    );
  });
}

describe("supabase/config.toml", () => {
  test("supabase/config.toml is accepted by the Supabase CLI, which then fails only for lack of Docker", {
    timeout: timeLimitMs,
  }, async () => {
    const output = await supabaseStart(config);
    expect(output).toContain("Cannot connect to the Docker daemon");
    expect(output).not.toMatch(/invalid config|deprecated|WARN/i);
  });

  test("the Supabase CLI refuses a copy of supabase/config.toml with a mistake", {
    timeout: timeLimitMs,
  }, async () => {
    const output = await supabaseStart(config.replace("major_version = 17", "major_version = 3"));
    expect(output).not.toContain("Cannot connect to the Docker daemon");
  });

  test("config.toml names each function's folder, and leaves checking credentials to the function", () => {
    const folders = readdirSync(path.join(root, "supabase/functions"), { withFileTypes: true })
      .filter((entry) => entry.isDirectory() && !entry.name.startsWith("_"))
      .map((entry) => entry.name);
    const sections = [...config.matchAll(/^\[functions\.([\w-]+)\]\nverify_jwt = (true|false)$/gm)];
    expect(sections.map(([, name]) => name).sort()).toEqual(folders.sort());
    expect(sections.filter(([, , verify]) => verify === "true")).toEqual([]);
  });

  test("config.toml names a template for each email that the identity backend sends", () => {
    const named = [...config.matchAll(/^content_path = "\.\/supabase\/templates\/([\w.]+)"$/gm)].map(
      ([, file]) => file,
    );
    expect(named.sort()).toEqual(readdirSync(path.join(root, "supabase/templates")).sort());
  });
});

test("supabase/config.toml has the same requirements for passwords and sign-ups as our pages", () => {
  for (const line of [
    "minimum_password_length = 8",
    'password_requirements = ""',
    "secure_password_change = true",
    "enable_confirmations = true",
  ]) {
    expect(config.split("\n")).toContain(line);
  }
  expect(newPasswordSchema.safeParse("x".repeat(7)).success).toBe(false);
  expect(newPasswordSchema.safeParse("x".repeat(8)).success).toBe(true);
});

test("supabase/config.toml disables every notification email of the identity backend", () => {
  const sections = [...config.matchAll(/^\[auth\.email\.notification\.(\w+)\]\nenabled = (\w+)$/gm)];
  expect(sections.map(([, name, enabled]) => [name, enabled])).toEqual(
    notificationMails.map((name) => [name, "false"]),
  );
});

describe("Email templates", () => {
  const files = readdirSync(path.join(root, "supabase/templates"));

  // Gmail and others turn anything that looks like a URL into a link, including `me+evil.example/login@example.com`.
  test.for(files)("the email template %s contains no user input, and links only to our own page", (file) => {
    const template = readFileSync(path.join(root, "supabase/templates", file), "utf8");
    const values = [...template.matchAll(/\{\{\s*(.*?)\s*\}\}/g)].map(([, value]) => value);
    expect([".SiteURL", ".TokenHash", ".RedirectTo", ".Token"]).toEqual(expect.arrayContaining(values));
    for (const [, href] of template.matchAll(/href="([^"]*)"/g)) {
      expect(href).toMatch(/^\{\{ \.SiteURL \}\}\/auth\/confirm\?/);
    }
    expect(template.replaceAll(/href="[^"]*"/g, "")).not.toMatch(/SiteURL|RedirectTo|\/\//);
  });

  test("the email templates and the names in config.toml match the output of `npm run gatehouse -- email-templates` without brand settings", () => {
    for (const [file, text] of supabaseFiles({ name: defaultName, accent: defaultAccent }, config))
      expect(readFileSync(path.join(root, file), "utf8"), file).toBe(text);
  });

  test("emails end with the address of support if one is configured", () => {
    const brand = { name: "Acme", accent: "#1d4ed8", support: "mailto:help@example.com" };
    for (const [file, text] of supabaseFiles(brand, config)) {
      if (file.endsWith(".html")) {
        expect(text, file).toMatch(
          /Support: <a [^>]*href="mailto:help@example.com">help@example.com<\/a><\/p>\n<\/td>/,
        );
      }
    }
  });

  test("emails show the brand, the expiry of their link or code, the reason for the email, and what to do about an unexpected email", () => {
    const rendered = supabaseFiles({ name: "Acme & Co", accent: "#1d4ed8" }, config);
    for (const [file, text] of rendered) {
      expect(text, file).not.toContain(defaultName);
      if (file.endsWith(".toml")) {
        expect(text).toContain('sender_name = "Acme & Co"');
        expect(text).toContain('rp_display_name = "Acme & Co"');
        expect(text).toContain('[auth.email.template.confirmation]\nsubject = "Confirm your email for Acme & Co"\n');
        continue;
      }
      expect(text).toContain("Acme &amp; Co");
      expect(text).toContain("#1d4ed8");
      expect(text).toMatch(/This (link|code) expires in 1 hour and works once\./);
      expect(text).toContain("You’re getting this email because");
      expect(text).toMatch(/If (it wasn’t you|you don’t know who invited you), /);
    }
  });

  test("email subjects have no placeholders", () => {
    const subjects = [...config.matchAll(/^subject = "(.*)"$/gm)].map(([, subject]) => subject);
    expect(subjects).toHaveLength(files.length);
    expect(subjects.join()).not.toContain("{{");
  });

  test("the magic_link email contains a code to enter, and no link", () => {
    const template = readFileSync(path.join(root, "supabase/templates/magic_link.html"), "utf8");
    expect(template).toContain("{{ .Token }}");
    expect(template).not.toMatch(/href|TokenHash|ConfirmationURL/);
  });

  test.for([
    ["confirmation", "signup"],
    ["recovery", "recovery"],
    ["invite", "invite"],
    ["email_change", "email_change"],
  ])("the email %s links to the page that asks for a click before it redeems the token", ([file, type]) => {
    const template = readFileSync(path.join(root, `supabase/templates/${file}.html`), "utf8");
    expect(template).toContain(`{{ .SiteURL }}/auth/confirm?token_hash={{ .TokenHash }}&amp;type=${type}`);
    expect(template).not.toContain("ConfirmationURL");
  });
});
