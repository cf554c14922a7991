import { accentSchemes } from "../config/accent.ts";

/** A part of an email's body. Its texts are already HTML. */
export type EmailBlock =
  | { kind: "paragraph"; html: string }
  | { kind: "facts"; facts: readonly { label: string; value: string }[] }
  | { kind: "button"; label: string; href: string }
  | { kind: "code"; code: string };

export interface Email {
  brand: { name: string; accent: string };
  heading: string;
  blocks: readonly EmailBlock[];
  /** Paragraphs that say why the email was sent, and what to do if it was unexpected. */
  footer: readonly string[];
}

/** The colours of `ui/styles.css` in hexadecimal, because email clients don't support `oklch()`. */
const light = { canvas: "#f6f8f9", surface: "#ffffff", line: "#dbe1e4", ink: "#171d21", muted: "#535d63" };
const dark = { canvas: "#0c1317", surface: "#131b20", line: "#2a343a", ink: "#edf1f3", muted: "#a6afb5" };
const sans = "-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif";
const mono = "ui-monospace,'SF Mono',Menlo,Consolas,'Liberation Mono',monospace";

/**
 * Renders an email for all kinds of clients: tables, inline styles, no external resources. Clients that honour
 * `prefers-color-scheme` show it dark; others keep or invert the light colours.
 */
export function emailHtml({ brand, heading, blocks, footer }: Email): string {
  const accent = accentSchemes(brand.accent);
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="supported-color-schemes" content="light dark">
<title>${heading}</title>
<style>
  :root { color-scheme: light dark; }
  @media (prefers-color-scheme: dark) {
    .canvas { background-color: ${dark.canvas} !important; }
    .card { background-color: ${dark.surface} !important; border-color: ${dark.line} !important; }
    .rule { border-color: ${dark.line} !important; }
    .ink { color: ${dark.ink} !important; }
    .muted { color: ${dark.muted} !important; }
    .accent { color: ${accent.dark.accent} !important; }
    .button { background-color: ${accent.dark.accent} !important; }
    .button a { color: ${accent.dark.on} !important; }
  }
</style>
</head>
<body class="canvas" style="margin:0;padding:0;background-color:${light.canvas};">
<div role="main">
<table role="presentation" class="canvas" width="100%" cellpadding="0" cellspacing="0" border="0" style="background-color:${light.canvas};">
<tr><td align="center" style="padding:32px 16px;">
<table role="presentation" width="520" cellpadding="0" cellspacing="0" border="0" style="width:100%;max-width:520px;text-align:left;font-family:${sans};font-size:15px;line-height:150%;">
<tr><td class="accent" style="padding:0 4px 16px;font-size:16px;font-weight:600;color:${accent.light.accent};">${brand.name}</td></tr>
<tr><td class="card ink" style="padding:28px 24px 12px;background-color:${light.surface};border:1px solid ${light.line};border-radius:8px;color:${light.ink};">
<h1 class="ink" style="margin:0 0 16px;font-size:20px;line-height:130%;font-weight:600;color:${light.ink};">${heading}</h1>
${blocks.map((block) => renderBlock(block, accent.light)).join("\n")}
</td></tr>
<tr><td class="muted" style="padding:20px 4px 0;font-size:12px;line-height:150%;color:${light.muted};">
${footer.map((html) => `<p style="margin:0 0 8px;">${html}</p>`).join("\n")}
</td></tr>
</table>
</td></tr>
</table>
</div>
</body>
</html>
`;
}

function renderBlock(block: EmailBlock, accent: { accent: string; on: string }): string {
  if (block.kind === "paragraph") return `<p style="margin:0 0 16px;">${block.html}</p>`;
  if (block.kind === "code") {
    return `<p class="ink rule" style="margin:0 0 16px;padding:12px;border:1px solid ${light.line};border-radius:6px;text-align:center;font-family:${mono};font-size:24px;letter-spacing:3px;color:${light.ink};">${block.code}</p>`;
  }
  if (block.kind === "button") {
    return `<table role="presentation" cellpadding="0" cellspacing="0" border="0" style="margin:0 0 16px;"><tr><td class="button" style="background-color:${accent.accent};border-radius:6px;"><a style="display:inline-block;padding:10px 20px;font-weight:600;color:${accent.on};text-decoration:none;" href="${block.href}">${block.label}</a></td></tr></table>`;
  }
  const rows = block.facts.map(
    ({ label, value }) =>
      `<tr><td class="muted rule" valign="top" style="padding:8px 16px 8px 0;border-top:1px solid ${light.line};color:${light.muted};width:35%;">${label}</td><td class="ink rule" valign="top" style="padding:8px 0;border-top:1px solid ${light.line};color:${light.ink};word-break:break-word;">${value}</td></tr>`,
  );
  return `<table role="presentation" width="100%" cellpadding="0" cellspacing="0" border="0" style="margin:0 0 16px;font-size:14px;">${rows.join("")}</table>`;
}

/** Renders a link within the text of an email. */
export function emailLink(href: string, { accent, text = href }: { accent: string; text?: string }): string {
  return `<a class="accent" style="color:${accent};word-break:break-word;" href="${href}">${text}</a>`;
}

/** Returns the last line of an email's small print, as text and as HTML: where to ask for help. */
export function supportLine(support: string, { accent }: { accent: string }): { text: string; html: string } {
  const address = support.replace(/^mailto:/, "");
  const link = emailLink(escapeHtml(support), { accent, text: escapeHtml(address) });
  return { text: `Support: ${address}`, html: `Support: ${link}` };
}

export function escapeHtml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}
