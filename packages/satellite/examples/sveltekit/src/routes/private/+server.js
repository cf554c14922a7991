const page = '<account-menu></account-menu><script type="module" src="/account-menu.js"></script>';

export function GET() {
  return new Response(page, { headers: { "Content-Type": "text/html" } });
}
