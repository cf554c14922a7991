/** The parts of Next that the adapter uses. Apps install Next themselves. */
declare module "next/server" {
  export class NextResponse extends Response {
    static next(init?: { request?: { headers?: Headers } }): NextResponse;
  }
}
declare module "next/headers" {
  export function headers(): Promise<Headers>;
}
declare module "next/navigation" {
  export function redirect(path: string): never;
}
