export function stylesheet(accent: string | null): string {
  const accentColor = accent
    ? `light-dark(${accent}, color-mix(in oklch, ${accent}, white 55%))`
    : "light-dark(oklch(0.44 0.078 200), oklch(0.775 0.1 192))";
  return `:root {
  color-scheme: light dark;
  --canvas: light-dark(oklch(0.984 0.003 235), oklch(0.172 0.011 235));
  --surface: light-dark(oklch(1 0 0), oklch(0.208 0.013 235));
  --line: light-dark(oklch(0.905 0.008 235), oklch(0.315 0.016 235));
  --edge: light-dark(oklch(0.63 0.016 235), oklch(0.565 0.02 235));
  --ink: light-dark(oklch(0.225 0.016 235), oklch(0.955 0.004 235));
  --muted: light-dark(oklch(0.465 0.018 235), oklch(0.745 0.014 235));
  --accent: ${accentColor};
  --on-accent: light-dark(oklch(1 0 0), oklch(0.195 0.03 205));
  --good: light-dark(oklch(0.45 0.105 155), oklch(0.8 0.125 155));
  --good-soft: light-dark(oklch(0.962 0.024 155), oklch(0.265 0.035 160));
  --bad: light-dark(oklch(0.495 0.175 26), oklch(0.765 0.125 24));
  --bad-soft: light-dark(oklch(0.968 0.018 22), oklch(0.26 0.042 22));
}
*, ::before, ::after { box-sizing: border-box; }
html { overflow-y: scroll; -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--canvas); color: var(--ink); font: 0.875rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
header, main { width: 100%; max-width: 27rem; margin: 0 auto; padding: 0 1rem; }
header { display: flex; flex-wrap: wrap; align-items: center; justify-content: space-between; gap: 0.5rem; padding-top: 1rem; }
header > a { padding: 0.25rem 0; color: var(--ink); font-weight: 600; text-decoration: none; }
main { display: grid; gap: 1.5rem; padding-top: 3rem; padding-bottom: 2rem; }
h1 { margin: 0 0 0.5rem; font-size: 1.75rem; line-height: 1.25; text-wrap: balance; }
h2 { margin: 0 0 0.75rem; font-size: 1rem; }
p { margin: 0; }
main a { color: var(--accent); }
.lead { color: var(--muted); font-size: 1rem; }
.lead strong { color: var(--ink); font-weight: 600; }
.muted { color: var(--muted); }
.role { color: var(--muted); font-size: 0.75rem; }
.role::first-letter { text-transform: uppercase; }
ul { display: grid; gap: 0.5rem; margin: 0; padding: 0; list-style: none; }
li { padding: 0.75rem; border: 1px solid var(--line); border-radius: 8px; background: var(--surface); }
li a { display: inline-block; min-height: 1.5rem; font-weight: 500; }
nav { display: flex; gap: 1rem; margin-top: 0.75rem; }
.link { display: inline-block; min-height: 1.5rem; }
form { display: grid; gap: 1rem; }
label { display: block; margin-bottom: 0.25rem; font-weight: 600; }
input { width: 100%; min-height: 2.5rem; padding: 0.5rem 0.75rem; border: 1px solid var(--edge); border-radius: 6px; background: var(--surface); color: inherit; font: inherit; }
input[aria-invalid] { border-color: var(--bad); }
.error { margin-top: 0.25rem; color: var(--bad); }
main button, .button { display: block; width: 100%; min-height: 2.5rem; padding: 0.5rem 1rem; border: 1px solid var(--edge); border-radius: 6px;
  background: var(--surface); color: var(--ink); font: inherit; font-weight: 600; text-align: center; text-decoration: none; cursor: pointer; }
main .primary { border-color: var(--accent); background: var(--accent); color: var(--on-accent); }
.notice { padding: 0.75rem; border-radius: 8px; }
.notice.good { background: var(--good-soft); color: var(--good); }
.notice.bad { background: var(--bad-soft); color: var(--bad); }
.notice a { color: inherit; }
`;
}
