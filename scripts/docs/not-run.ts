/**
 * Every block that is parsed and not run: its document, why (a `needs=` of blocks.ts, or a language that does nothing),
 * and its first line. A block that joins them is named here as well, so that nobody excuses one in passing.
 */
export const notRun: readonly string[] = [
  "README.md checkout: npm ci && npm start",
  "README.md checkout: npm ci && npm test",
  "CONTRIBUTING.md checkout: GATEHOUSE_STACK=.local/stack.json npx vitest run --project integration",
  "docs/deploying.md hosted: npm ci                                    # Node 20 or newer",
  "docs/deploying.md hosted: npx supabase config diff",
  "docs/deploying.md hosted: cat > functions.env <<'ENV'",
  "docs/deploying.md ini: NODE_ENV=production",
  "docs/deploying.md docker: docker build -t gatehouse .",
  "docs/deploying.md checkout: npm ci && npm run build",
  "docs/deploying.md production: npm run doctor -- --env production.env --env functions.env",
  'docs/deploying.md production: npx node --env-file=production.env scripts/admin.ts grant ada@example.com --reason "first admin"',
  'docs/deploying.md hosted: curl "https://$PROJECT_REF.supabase.co/functions/v1/chat/completions" \\',
  'docs/gateway-answers.md json: { "run_id": "01a1ffdb-…", "trace_id": "01a1ffdb…", "steps": [{ "step": 1, "type": "model", "name": "demo-chat", "status": "succeeded", "latency_ms": 412 }],',
  "docs/gateway-credentials.md json: {",
  "docs/mobile.md context: const { data } = await supabase.auth.mfa.listFactors();",
  "docs/mobile.md context: const gateway = new OpenAI({",
  'docs/mobile.md values: npm run mobile -- qr approve "{base}/qr/open#<id>.<secret>"',
  "docs/mobile.md values: MOBILE_TOTP_SECRET=… npm run mobile -- sign-in admin@gatehouse.test     # or --code 123456",
  "docs/recovery.md production: npx node --env-file=production.env scripts/admin.ts list",
  'docs/required-mfa.md values: npm run admin -- grant ada@example.com --reason "on call"',
  'docs/satellites.md browser: import { createServer } from "node:http";',
  'docs/satellites.md values: npm run app -- add memo --display-name Memo --origin http://127.0.0.1:4000 --scope profile --reason "trying it"',
  "docs/soak.md checkout: npm run soak                     # 30 minutes of traffic, and the audit",
];
