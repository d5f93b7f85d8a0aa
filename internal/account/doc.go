// Package account counts the memory that Ferry has in one context.
//
// An [Account] has the page-locked bytes by what asked for them, the most that they were, and
// their limit. A [Claim] is one request: it holds a part of the limit while the driver page-locks,
// and then counts what is page-locked until it is freed. An account does not know the driver. The
// few places of package ferry that page-lock tell it what happened, so memory that the driver did
// not free stays counted.
//
// [Places] records the call stacks that made memory, page-locked or not, once it is on.
//
// Account.mu may be held when Places.mu is taken. Otherwise both are leaves.
package account
