export function GET({ locals }) {
  return new Response(`Hello ${locals.user?.email ?? "World"}!`);
}
