import type { KeyRing } from "../crypto/derived-key.ts";
import { cookies } from "../http/cookie-table.ts";
import { type CookieContext, clearCookie, cookiesWithPrefix, readCookie, writeCookie } from "../http/cookies.ts";
import { type Device, deviceCookieValue, parseDeviceCookie, secretHash } from "./cookies.ts";

/**
 * The cookies of additions. An addition is a sign-in that is not yet merged into the browser's accounts. Each addition
 * has its own cookie, so that responses to tabs that add accounts concurrently don't overwrite each other. The cookie
 * has the format of a device cookie and holds the addition's secret. After the merge, the cookie is marked with a hash
 * of the device's new secret and kept until a minute after the browser has sent that secret. If a late response
 * restores an earlier device cookie in that time, the server can still derive the current device secret from the
 * addition's secret.
 */

type Context = CookieContext & { cookie: KeyRing };

const mergedMaxAgeSeconds = 24 * 60 * 60;
const confirmedMergeMaxAgeSeconds = 60;
const markLength = 8;
const mergeMarkPattern = /\.([0-9a-f]{8})(~?)$/;

function computeMergeMark(device: Device): string {
  return secretHash(device).slice(0, markLength);
}

/**
 * Returns the secrets in this device's addition cookies. Skips cookies that are marked with the device's current
 * secret, because their additions are already merged.
 */
export function readAdditions(context: Context, device: Device): string[] {
  const secrets = cookiesWithPrefix(context, cookies.addition).flatMap((cookie) => {
    const value = readCookie(context, cookie);
    const [, mark] = mergeMarkPattern.exec(value) ?? [];
    if (mark === computeMergeMark(device)) return [];
    const addition = parseDeviceCookie(value.replace(mergeMarkPattern, ""), context.cookie);
    return addition?.id === device.id ? [addition.secret] : [];
  });
  return [...new Set(secrets)];
}

/** Stores an addition in its own cookie. */
export function writeAddition(context: Context, addition: Device): void {
  const name = cookies.addition.name + computeMergeMark(addition);
  writeCookie(context, { ...cookies.addition, name }, { value: deviceCookieValue(addition, context.cookie) });
}

/**
 * Marks the cookies of merged additions with a hash of the device's current secret, and clears all other addition
 * cookies.
 * @param options.cookieSecret the secret in the browser's own device cookie
 * @param options.merged the secrets of the merged additions
 */
export function settleAdditions(
  context: Context,
  {
    device,
    cookieSecret,
    merged,
  }: { device: Device | null; cookieSecret?: string | undefined; merged: readonly string[] },
): void {
  for (const cookie of cookiesWithPrefix(context, cookies.addition)) {
    const value = readCookie(context, cookie);
    const addition = parseDeviceCookie(value.replace(mergeMarkPattern, ""), context.cookie);
    const [, mark, confirmation] = mergeMarkPattern.exec(value) ?? [];
    if (device && mark === computeMergeMark(device)) {
      const isConfirmed = cookieSecret === device.secret && !confirmation;
      if (isConfirmed) writeCookie(context, cookie, { value: `${value}~`, maxAgeSeconds: confirmedMergeMaxAgeSeconds });
    } else if (device && addition?.id === device.id && merged.includes(addition.secret)) {
      const markedValue = `${deviceCookieValue(addition, context.cookie)}.${computeMergeMark(device)}`;
      writeCookie(context, cookie, { value: markedValue, maxAgeSeconds: mergedMaxAgeSeconds });
    } else clearCookie(context, cookie);
  }
}
