package ptxforms

// formWords are the lists of words that patterns refer to with @.
var formWords = map[string]string{
	"int":    "u16|s16|u32|s32|u64|s64",
	"int32":  "u32|s32|u64|s64",
	"any":    "u8|s8|u16|s16|u32|s32|u64|s64",
	"bits":   "b16|b32|b64",
	"value":  "b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64",
	"memory": "b8|b16|b32|b64|u8|u16|u32|u64|s8|s16|s32|s64|f32|f64",
	"round":  "rn|rz|rm|rp",
	"whole":  "rni|rzi|rmi|rpi",
	"space":  "global|shared|shared::cta|local|param|param::entry|param::func|const",
	"narrow": "b8|b16|b32|u8|u16|u32|s8|s16|s32|f32",
	"store":  "global|shared|shared::cta|local|param|param::func",
	"half":   "f16|f16x2",
	"brain":  "bf16|bf16x2",
	"scope":  "cta|cluster|gpu|sys",
	"shared": "shared|shared::cta",
	"floats": "eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan",
	"order":  "eq|ne|lt|le|gt|ge",
	"bool":   "and|or|xor",
}

// formTable lists everything that runs, by family. parsePattern explains the syntax.
const formTable = `
# integer arithmetic
add @int|u16x2|s16x2
add sat s32
sub @int
sub sat s32
mul lo|hi @int
mul wide u16|s16|u32|s32
mul u16|s16|u32|s32
mad lo|hi @int
mad wide u16|s16|u32|s32
mad hi sat s32
mad lo|hi cc @int32
madc lo|hi cc? @int32
add cc @int32
addc cc? @int32
sub cc @int32
subc cc? @int32
mul24 lo|hi u32|s32
mad24 lo|hi u32|s32
mad24 hi sat s32
sad @int
div @int
rem @int
abs s16|s32|s64
neg s16|s32|s64
min @int|u16x2|s16x2
max @int|u16x2|s16x2
min relu s16x2|s32
max relu s16x2|s32
dp4a u32|s32 u32|s32
dp2a lo|hi u32|s32 u32|s32

# bits
and @bits|pred
or @bits|pred
xor @bits|pred
not @bits|pred
cnot @bits
shl @bits
shr @bits|u16|s16|u32|s32|u64|s64
shf l|r clamp|wrap b32
lop3 b32
lop3 and|or b32
prmt f4e|b4e|rc8|ecl|ecr|rc16? b32
popc b32|b64
clz b32|b64
brev b32|b64
bfind shiftamt? @int32
bfe @int32
bfi b32|b64
fns b32
bmsk clamp|wrap b32
szext clamp|wrap u32|s32

# video
vshr u32|s32 u32|s32 u32 sat? clamp|wrap add?
vshr s32 u32|s32 u32 sat? clamp|wrap min|max
vshr u32 u32 u32 clamp|wrap min|max
vshr u32 u32|s32 u32 sat clamp min|max
vshr u32 s32 u32 sat wrap min|max

# single and double precision
add @round? ftz? sat? f32
sub @round? ftz? sat? f32
mul @round? ftz? sat? f32
add @round? f64
sub @round? f64
mul @round? f64
fma @round? ftz? sat? f32
mad @round? ftz? sat? f32
fma @round f64
mad @round f64
div approx|full|rn|rz|rm|rp? ftz? f32
div @round f64
rcp approx|rn|rz|rm|rp? ftz? f32
rcp @round f64
rcp approx ftz f64
sqrt approx|rn|rz|rm|rp? ftz? f32
sqrt @round f64
rsqrt approx? ftz? f32
rsqrt approx ftz? f64
sin approx? ftz? f32
cos approx? ftz? f32
lg2 approx? ftz? f32
ex2 approx? ftz? f32
tanh approx f32
abs ftz? f32
neg ftz? f32
abs f64
neg f64
min ftz? NaN? f32
max ftz? NaN? f32
min ftz? NaN? xorsign abs f32
max ftz? NaN? xorsign abs f32
min f64
max f64
copysign f32|f64
testp finite|infinite|number|notanumber|normal|subnormal f32|f64

# half precision
add rn? ftz? sat? @half
sub rn? ftz? sat? @half
mul rn? ftz? sat? @half
add rn? @brain
sub rn? @brain
mul rn? @brain
fma rn ftz? sat|relu? @half
fma rn relu? @brain
abs ftz? @half
neg ftz? @half
abs @brain
neg @brain
min ftz? NaN? @half
max ftz? NaN? @half
min NaN? @brain
max NaN? @brain
min ftz? NaN? xorsign abs @half
max ftz? NaN? xorsign abs @half
min NaN? xorsign abs @brain
max NaN? xorsign abs @brain
ex2 approx @half
ex2 approx ftz @brain
tanh approx @half|@brain

# comparison and selection
setp eq|ne @bool? @bits
setp @order @bool? s16|s32|s64
setp @order|lo|ls|hi|hs @bool? u16|u32|u64
setp @floats @bool? ftz? f32
setp @floats @bool? f64
setp @floats @bool? ftz? @half
setp @floats @bool? @brain
set eq|ne @bool? u32|s32|f32 @bits
set @order @bool? u32|s32|f32 s16|s32|s64
set @order|lo|ls|hi|hs @bool? u32|s32|f32 u16|u32|u64
set @floats @bool? ftz? u32|s32|f32 f32
set @floats @bool? u32|s32|f32 f64
set @floats @bool? ftz? u16|s16|u32|s32 f16
set @floats @bool? u16|s16|u32|s32 bf16
set @floats @bool? ftz? f16 f16
set @floats @bool? bf16 bf16
set @floats @bool? ftz? f16x2|u32|s32 f16x2
set @floats @bool? bf16x2|u32|s32 bf16x2
selp @value
slct @value s32
slct ftz? @value f32

# conversions
cvt sat? @any @any
cvt @round sat? f16|f32|f64 @any
cvt f32 @any
cvt @round bf16 @any
cvt @whole ftz? sat? @any f32
cvt @any f32
cvt @whole sat? @any f16|f64
cvt @whole @any bf16
cvt @whole bf16 bf16
cvt @whole? ftz? sat? f32 f32
cvt @whole? sat? f64 f64
cvt @whole? sat? f16 f16
cvt @round ftz? sat? f32 f64
cvt ftz? sat? f64 f32
cvt ftz? sat? f32 f16
cvt sat? f64 f16
cvt @round ftz? sat? f16 f32
cvt rn|rz relu satfinite? f16 f32
cvt rn|rz satfinite f16 f32
cvt @round sat? f16 f64
cvt rn|rz relu? satfinite? bf16 f32
cvt rm|rp bf16 f32
cvt @round bf16 f16|f64
cvt @round f16 bf16
cvt f32|f64 bf16
cvt ftz f32 bf16
cvt rn|rz relu? satfinite? f16x2|bf16x2 f32
cvt rna satfinite? tf32 f32
cvt rn|rz relu? tf32 f32
cvt rn satfinite relu? e4m3x2|e5m2x2 f32|f16x2
cvt rn relu? f16x2 e4m3x2|e5m2x2
cvt pack sat u16|s16 s32
cvt pack sat u8|s8 s32 b32

# moves
mov @value|pred
mov v2 @value
mov v4 b16|b32|u16|u32|s16|s32|f32
cvta global|shared|shared::cta|local|param|param::entry|const u64
cvta to global|shared|shared::cta|local|param|param::entry|const u64
cvta to? global|const u32
isspacep global|shared|shared::cta|local|param|const

# memory
ld weak? @space? v2? @memory %
ld weak? @space? v4 @narrow %
ld weak? global? v8 b32|u32|s32|f32 %
ld weak? global? v4 b64|u64|s64|f64 %
ld volatile global|shared|shared::cta? v2? @memory
ld volatile global|shared|shared::cta? v4 @narrow
ld relaxed|acquire @scope~ global|shared|shared::cta? v2? @memory %
ld relaxed|acquire @scope~ global|shared|shared::cta? v4 @narrow %
ld mmio relaxed sys global? @memory
ld nc global v2? @memory %
ld nc global v4 @narrow %
ldu global? v2? @memory
ldu global? v4 @narrow
st weak? @store? v2? @memory %
st weak? @store? v4 @narrow %
st weak? global? v8 b32|u32|s32|f32 %
st weak? global? v4 b64|u64|s64|f64 %
st volatile global|shared|shared::cta? v2? @memory
st volatile global|shared|shared::cta? v4 @narrow
st relaxed|release @scope~ global|shared|shared::cta? v2? @memory %
st relaxed|release @scope~ global|shared|shared::cta? v4 @narrow %
st mmio relaxed sys global? @memory
prefetch global|local? L1|L2
prefetch global L2::evict_last|L2::evict_normal
prefetchu L1
discard global? L2
applypriority global? L2::evict_normal
createpolicy fractional L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged L2::evict_first|L2::evict_unchanged? b64
createpolicy range global? L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged L2::evict_first|L2::evict_unchanged? b64
createpolicy cvt L2 b64

# atomics
atom relaxed|acquire|release|acq_rel?~ @scope?~ global|shared|shared::cta? add u32|s32|u64 %
atom relaxed|acquire|release|acq_rel?~ @scope?~ global|shared|shared::cta? min|max u32|s32|u64|s64 %
atom relaxed|acquire|release|acq_rel?~ @scope?~ global|shared|shared::cta? and|or|xor b32|b64 %
atom relaxed|acquire|release|acq_rel?~ @scope?~ global|shared|shared::cta? exch b32|b64 %
atom relaxed|acquire|release|acq_rel?~ @scope?~ global|shared|shared::cta? cas b16|b32|b64 %
atom global|shared? exch|cas u32|u64
atom relaxed|acquire|release|acq_rel?~ @scope?~ global|shared|shared::cta? inc|dec u32 %
atom relaxed|acquire|release|acq_rel?~ @scope?~ global|shared|shared::cta? add f32|f64 %
atom relaxed|acquire|release|acq_rel?~ @scope?~ global|shared|shared::cta? add noftz @half|@brain %
red relaxed|release?~ @scope?~ global|shared|shared::cta? add u32|s32|u64 %
red relaxed|release?~ @scope?~ global|shared|shared::cta? min|max u32|s32|u64|s64 %
red relaxed|release?~ @scope?~ global|shared|shared::cta? and|or|xor b32|b64 %
red relaxed|release?~ @scope?~ global|shared|shared::cta? inc|dec u32 %
red relaxed|release?~ @scope?~ global|shared|shared::cta? add f32|f64 %
red relaxed|release?~ @scope?~ global|shared|shared::cta? add noftz @half|@brain %

# warps
shfl sync? up|down|bfly|idx b32
vote sync? all|any|uni pred
vote sync? ballot b32
match sync any|all b32|b64
redux sync add|min|max u32|s32
redux sync and|or|xor b32
activemask b32
elect sync

# control
bra uni?
brx idx uni?
call uni?
ret uni?
exit
trap
brkpt
pmevent mask?
nanosleep u32
setmaxnreg inc|dec sync aligned u32
griddepcontrol launch_dependents|wait
alloca u64
stacksave u64
stackrestore u64

# barriers, fences, asynchronous copies
bar sync|arrive
bar cta sync|arrive
bar warp sync
bar cta? red popc u32
bar cta? red and|or pred
barrier cta? sync|arrive aligned?
barrier cluster arrive release|relaxed? aligned?
barrier cluster wait acquire? aligned?
mapa u64
getctarank u64
barrier cta? red aligned? popc u32
barrier cta? red aligned? and|or pred
membar cta|gl|sys
fence sc|acq_rel|acquire|release? @scope
cp async ca|cg @shared global L2::64B|L2::128B|L2::256B|L2::cache_hint?~
cp async commit_group
cp async wait_group
cp async wait_all
cp async mbarrier arrive noinc? @shared? b64
mbarrier init|inval @shared? b64
mbarrier arrive|arrive_drop release|relaxed?~ cta|cluster?~ @shared? b64
mbarrier arrive|arrive_drop expect_tx release|relaxed?~ cta|cluster?~ @shared? b64
mbarrier arrive|arrive_drop noComplete release?~ cta?~ @shared? b64
mbarrier expect_tx|complete_tx relaxed cta|cluster~ @shared? b64
mbarrier expect_tx|complete_tx @shared? b64
mbarrier test_wait|try_wait acquire|relaxed?~ cta|cluster?~ @shared? b64
mbarrier test_wait|try_wait parity acquire|relaxed?~ cta|cluster?~ @shared? b64
mbarrier pending_count b64

# matrices
ldmatrix sync aligned m8n8 x1|x2|x4 trans? @shared? b16
stmatrix sync aligned m8n8 x1|x2|x4 trans? @shared? b16
movmatrix sync aligned m8n8 trans b16
mma sync aligned m8n8k4 row|col row|col f16 f16 f16 f16
mma sync aligned m8n8k4 row|col row|col f32 f16 f16 f16|f32
mma sync aligned m16n8k8|m16n8k16 row col f16 f16 f16 f16
mma sync aligned m16n8k8|m16n8k16 row col f32 f16 f16 f32
mma sync aligned m16n8k8|m16n8k16 row col f32 bf16 bf16 f32
mma sync aligned m16n8k4|m16n8k8 row col f32 tf32 tf32 f32
mma sync aligned m16n8k32 row col f32 e4m3|e5m2 e4m3|e5m2 f32
mma sync aligned m8n8k16|m16n8k16|m16n8k32 row col satfinite? s32 u8|s8 u8|s8 s32
mma sync aligned m8n8k32|m16n8k32|m16n8k64 row col satfinite? s32 u4|s4 u4|s4 s32
mma sync aligned m8n8k128|m16n8k128|m16n8k256 row col xor|and popc s32 b1 b1 s32
mma sync aligned m8n8k4|m16n8k4|m16n8k8|m16n8k16 row col @round? f64 f64 f64 f64
wmma load a|b sync aligned row|col m16n16k16|m32n8k16|m8n32k16 @shared|global? f16|bf16|u8|s8
wmma load c sync aligned row|col m16n16k16|m32n8k16|m8n32k16 @shared|global? f16|f32|s32
wmma load a|b sync aligned row|col m16n16k8 @shared|global? tf32
wmma load c sync aligned row|col m16n16k8 @shared|global? f32
wmma load a|b|c sync aligned row|col m8n8k4 @shared|global? f64
wmma store d sync aligned row|col m16n16k16|m32n8k16|m8n32k16 @shared|global? f16|f32|s32
wmma store d sync aligned row|col m16n16k8 @shared|global? f32
wmma store d sync aligned row|col m8n8k4 @shared|global? f64
wmma mma sync aligned row|col row|col m16n16k16|m32n8k16|m8n32k16 f16|f32 f16|f32
wmma mma sync aligned row|col row|col m16n16k16|m32n8k16|m8n32k16 f32 bf16 bf16 f32
wmma mma sync aligned row|col row|col m16n16k16|m32n8k16|m8n32k16 satfinite? s32 u8 u8 s32
wmma mma sync aligned row|col row|col m16n16k16|m32n8k16|m8n32k16 satfinite? s32 s8 s8 s32
wmma mma sync aligned row|col row|col m16n16k8 f32 tf32 tf32 f32
wmma mma sync aligned row|col row|col m8n8k4 @round? f64 f64 f64 f64
`

// Refusal says why some operations do not run.
type Refusal struct {
	Ops    []string
	Reason string
}

// Refused lists operations that the ISA has and the software GPU does not run. An
// operation that is neither here nor in the table of forms was not in the ISA when
// this list was written.
var Refused = []Refusal{
	{[]string{"tex", "tld4", "txq", "istypep", "suld", "sust", "sured", "suq"}, "textures and surfaces are not supported"},
	{[]string{"wgmma"}, "asynchronous matrix operations of sm_90a are not supported"},
	{[]string{"tcgen05"}, "tensor memory of sm_100a is not supported"},
	{[]string{"multimem", "clusterlaunchcontrol"}, "multicast and clusters that take the place of others are not supported"},
	{[]string{"tensormap", "cp"}, "bulk and tensor copies are not supported"},
	{[]string{
		"vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vmad", "vset", "vadd2", "vsub2", "vavrg2", "vabsdiff2", "vmin2", "vmax2",
		"vset2", "vadd4", "vsub4", "vavrg4", "vabsdiff4", "vmin4", "vmax4", "vset4",
	}, "video instructions other than vshr are not supported"},
}
