package simt

// decoders are the instructions that this package runs, by base opcode.
var decoders map[string]func(*decoder) error

func init() {
	decoders = map[string]func(*decoder) error{
		// memory
		"ld": decodeLoad, "ldu": decodeLoad, "st": decodeStore,
		"cvta": decodeCvta, "isspacep": decodeIsSpace,
		// moves
		"mov": decodeMove,
		// integers
		"add": decodeAdd, "sub": decodeSub, "mul": decodeMul, "mad": decodeMad, "fma": decodeFma,
		"div": decodeDiv, "rem": decodeRem, "abs": decodeAbs, "neg": decodeNeg, "min": decodeMin, "max": decodeMax,
		"addc": decodeCarry, "subc": decodeCarry, "madc": decodeCarry,
		"mul24": decodeMul24, "mad24": decodeMad24, "sad": decodeSad, "dp4a": decodeDot, "dp2a": decodeDot,
		// bits
		"and": decodeLogic, "or": decodeLogic, "xor": decodeLogic, "not": decodeLogic, "cnot": decodeLogic,
		"shl": decodeShift, "shr": decodeShift, "shf": decodeFunnel, "lop3": decodeLop3, "prmt": decodePrmt,
		"bfe": decodeBfe, "bfi": decodeBfi, "bfind": decodeBfind, "brev": decodeBits, "popc": decodeBits, "clz": decodeBits,
		"fns": decodeFns, "bmsk": decodeBmsk, "szext": decodeSzext,
		// comparison and selection
		"setp": decodeSetp, "set": decodeSet, "selp": decodeSelp, "slct": decodeSlct,
		// floats
		"rcp": decodeUnaryFloat, "sqrt": decodeUnaryFloat, "rsqrt": decodeUnaryFloat, "sin": decodeUnaryFloat,
		"cos": decodeUnaryFloat, "lg2": decodeUnaryFloat, "ex2": decodeUnaryFloat, "tanh": decodeUnaryFloat,
		"copysign": decodeCopysign, "testp": decodeTestp, "cvt": decodeCvt,
		// control
		"bra": decodeBra, "brx": decodeBrx, "call": decodeCall, "ret": decodeRet, "exit": decodeExit,
		"bar": decodeBar, "barrier": decodeBar, "nanosleep": decodeYield, "trap": decodeTrap, "brkpt": decodeTrap,
		"pmevent": decodeNop, "griddepcontrol": decodeNop, "prefetch": decodeNop, "prefetchu": decodeNop,
		"discard": decodeNop, "applypriority": decodeNop, "createpolicy": decodeCreatePolicy, "setmaxnreg": decodeNop,
		"membar": decodeFence, "fence": decodeFence,
		// warps
		"vote": decodeVote, "match": decodeMatch, "redux": decodeRedux, "shfl": decodeShfl,
		"activemask": decodeActiveMask, "elect": decodeElect,
		// the stack
		"alloca": decodeAlloca, "stacksave": decodeStackSave, "stackrestore": decodeStackRestore,
		// matrices
		"ldmatrix": decodeLoadMatrix, "stmatrix": decodeStoreMatrix, "movmatrix": decodeMoveMatrix, "mma": decodeMMA, "wmma": decodeWmma,
		"mbarrier": decodeMbarrier,
		// atomics and copies
		"atom": decodeAtom, "red": decodeAtom, "cp": decodeCopy,
	}
}
